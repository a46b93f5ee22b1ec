package config

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of the YAML text, checked before it is parsed: the parser recurses
// once a nesting and once a neighbouring key, and its paths grow with depth.
const (
	maxTokens  = 1 << 16
	maxNesting = 32
)

// document parses text and gives its root mapping, or nil after a fault.
func (r *reader) document(text []byte) *ast.MappingNode {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	switch {
	case len(text) > MaxFileBytes:
		return r.refuse(place{}, "the file is larger than %s", Size(MaxFileBytes))
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		return r.refuse(place{line: badTextLine(text)}, "is not UTF-8 text")
	}
	file, err := parseYAML(string(text))
	var syntax *yaml.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return r.refuse(placeOf(syntax.Token), "syntax: %s", syntax.Message)
	case err != nil:
		return r.refuse(place{}, "syntax: %v", err)
	}
	var root ast.Node
	for _, doc := range file.Docs {
		switch body := doc.Body.(type) {
		case nil, *ast.CommentGroupNode:
			continue
		case *ast.DirectiveNode:
			return r.refuse(placeOf(body.GetToken()), "YAML directives are not used here: remove the line")
		}
		if root != nil {
			return r.refuse(placeOf(doc.Body.GetToken()), "holds a second YAML document: one is allowed")
		}
		root = doc.Body
	}
	switch root := root.(type) {
	case nil, *ast.NullNode:
		return r.refuse(place{}, "the file is empty: copy config.example.yaml and edit it")
	case *ast.MappingNode:
		return root
	default:
		return r.refuse(placeOf(root.GetToken()), "must be a mapping of keys to values, is %s", describe(root))
	}
}

// parseYAML guards the YAML package: by bounds, and by turning a panic over
// some text that it does not expect into an error.
func parseYAML(text string) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("not readable as YAML (%v)", p)
		}
	}()
	tokens := lexer.Tokenize(text)
	if len(tokens) > maxTokens {
		return nil, fmt.Errorf("more than %d YAML tokens", maxTokens)
	}
	var flow, dashes, line int
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			dashes++
		}
		if flow > maxNesting || dashes > maxNesting {
			return nil, &yaml.SyntaxError{Message: "nested too deep", Token: t}
		}
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// badTextLine gives the line of the first byte that is not UTF-8 text.
func badTextLine(text []byte) int {
	line := 1
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		if c == 0 || c == utf8.RuneError && size == 1 {
			break
		}
		if c == '\n' {
			line++
		}
		text = text[size:]
	}
	return line
}
