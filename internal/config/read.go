package config

import (
	"encoding"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// place is where something stands in the file.
type place struct{ line, col int }

// reader walks the YAML tree against the schema of the structs. The YAML
// package's own strict mode stops at the first unknown key; this goes on, and
// remembers where every key stands so that later checks can point at it.
type reader struct {
	file     string
	faults   Faults
	warnings Faults
	places   map[string]place
	// faulty holds the keys that already have a fault. What they hold means
	// nothing, so checks that compare them with others are left out.
	faulty map[string]bool
	// meant holds the keys that an unknown one was probably meant to be.
	meant map[string]bool
}

// decode fills in what root says.
func (r *reader) decode(root *ast.MappingNode, c *Config) {
	r.mapping(root, reflect.ValueOf(c).Elem(), "")
}

// mapping decodes the keys of node into the struct.
func (r *reader) mapping(node *ast.MappingNode, into reflect.Value, path string) {
	fields := fieldsOf(into.Type())
	for _, pair := range node.Values {
		at := placeOf(pair.Key.GetToken())
		key, ok := keyText(pair.Key)
		if !ok {
			r.faultAt(at, path, "a key must be plain text: merge keys, aliases and complex keys are not used here")
			continue
		}
		full := join(path, key)
		f, known := fields[key]
		if !known {
			message, meant := unknownKey(key, into.Type())
			r.faultAt(at, full, "%s", message)
			r.meant[join(path, meant)] = true
			continue
		}
		if first, twice := r.places[full]; twice {
			r.report(at, full, "stands twice, first in line %d", first.line)
			continue
		}
		r.places[full] = at
		r.value(pair.Value, into.FieldByIndex(f.index), full, at)
	}
	for _, f := range fields {
		if full := join(path, f.key); f.required && !r.stands(full) {
			r.fault(full, nil, "is missing")
		}
	}
}

// value decodes one node into a field or an element of a list.
func (r *reader) value(node ast.Node, into reflect.Value, path string, at place) {
	switch node := node.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		r.faultAt(at, path, "anchors and aliases are not used here: write the value out")
		return
	case *ast.TagNode:
		r.faultAt(at, path, "YAML tags are not used here: write the value without %s", node.Start.Value)
		return
	}
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	if d, ok := into.Addr().Interface().(defaulter); ok {
		d.setDefaults()
	}
	if t, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		r.quantity(node, t, path, at)
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		r.section(node, into, path, at)
	case reflect.Slice:
		r.list(node, into, path, at)
	default:
		r.scalar(node, into, path, at)
	}
}

// section decodes a nested mapping. One without content stands all the same.
func (r *reader) section(node ast.Node, into reflect.Value, path string, at place) {
	switch node := node.(type) {
	case *ast.NullNode:
		r.mapping(&ast.MappingNode{}, into, path)
	case *ast.MappingNode:
		r.mapping(node, into, path)
	default:
		r.faultAt(at, path, "must be a section of keys, is %s", describe(node))
	}
}

func (r *reader) list(node ast.Node, into reflect.Value, path string, at place) {
	into.Set(reflect.MakeSlice(into.Type(), 0, 0)) // an empty list stands, a nil one does not
	if _, empty := node.(*ast.NullNode); empty {
		return
	}
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		r.faultAt(at, path, "must be a list, is %s", describe(node))
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(seq.Values), len(seq.Values)))
	for i, item := range seq.Values {
		full := index(path, i)
		r.places[full] = itemPlace(item)
		r.value(item, into.Index(i), full, r.places[full])
	}
}

func (r *reader) quantity(node ast.Node, into encoding.TextUnmarshaler, path string, at place) {
	text, ok := scalarText(node)
	if !ok {
		r.faultAt(at, path, "must be a quantity with its unit, is %s", describe(node))
		return
	}
	if err := into.UnmarshalText([]byte(text)); err != nil {
		r.faultAt(at, path, "%v", err)
	}
}

func (r *reader) scalar(node ast.Node, into reflect.Value, path string, at place) {
	text, ok := scalarText(node)
	if !ok {
		r.faultAt(at, path, "must be %s, is %s", kindName(into.Kind()), describe(node))
		return
	}
	switch into.Kind() {
	case reflect.String:
		if _, isBool := node.(*ast.BoolNode); isBool {
			r.faultAt(at, path, "must be text, is true or false: put it in quotes if it is meant")
			return
		}
		into.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			r.faultAt(at, path, "must be true or false, is %q", text)
			return
		}
		into.SetBool(text == "true")
	default:
		n, err := wholeNumber(text)
		if err != nil {
			r.faultAt(at, path, "must be a whole number, is %q", text)
			return
		}
		if into.CanUint() && n <= 0xffff {
			into.SetUint(uint64(n))
		} else if into.CanInt() {
			into.SetInt(int64(n))
		} else {
			r.faultAt(at, path, "%s is too large", text)
		}
	}
}

// wholeNumber parses a decimal number or a hexadecimal one with 0x. A leading
// zero is refused: to some it means octal.
func wholeNumber(text string) (uint32, error) {
	base, digits := 10, text
	if hex, ok := strings.CutPrefix(text, "0x"); ok {
		base, digits = 16, hex
	} else if len(text) > 1 && text[0] == '0' {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseUint(digits, base, 31)
	return uint32(n), err
}

// scalarText gives the text of a scalar as it stands in the file, so that a
// tank may be called 7 or 1e3. ok is false for a list, a section and null.
func scalarText(node ast.Node) (text string, ok bool) {
	switch node := node.(type) {
	case *ast.StringNode:
		return node.Value, true
	case *ast.LiteralNode:
		return strings.TrimRight(node.Value.Value, "\n"), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, true
	}
	return "", false
}

func keyText(node ast.MapKeyNode) (text string, ok bool) {
	scalar, isNode := node.(ast.Node)
	if !isNode {
		return "", false
	}
	return scalarText(scalar)
}

// describe says what a node is, for "must be a list, is …".
func describe(node ast.Node) string {
	switch node := node.(type) {
	case *ast.NullNode:
		return "empty"
	case *ast.MappingNode:
		return "a section of keys"
	case *ast.SequenceNode:
		return "a list"
	default:
		if text, ok := scalarText(node); ok {
			return strconv.Quote(shorten(text))
		}
		return "something else"
	}
}

func kindName(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	}
	return "a whole number"
}

// itemPlace is where an item of a list begins: a section has no token of its
// own, so it begins with its first key.
func itemPlace(node ast.Node) place {
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return placeOf(m.Values[0].Key.GetToken())
	}
	return placeOf(node.GetToken())
}

func placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{}
	}
	return place{t.Position.Line, t.Position.Column}
}
