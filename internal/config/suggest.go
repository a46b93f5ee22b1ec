package config

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// field is one key of the schema.
type field struct {
	key      string
	index    []int
	required bool
	// driver, signal and model are those that have the key, with commas between
	// them; "" for all.
	driver, signal, model string
	typ                   reflect.Type
}

// fieldsOf gives the keys of a struct of the schema, by name.
func fieldsOf(t reflect.Type) map[string]field {
	fields := make(map[string]field, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		key, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if key == "-" {
			continue
		}
		fields[key] = field{key, f.Index, option == "required", f.Tag.Get("driver"), f.Tag.Get("signal"), f.Tag.Get("model"), f.Type}
	}
	return fields
}

// keysOf gives the keys of a struct of the schema in order.
func keysOf(t reflect.Type) []string { return slices.Sorted(maps.Keys(fieldsOf(t))) }

// unknownKey gives the message for a key that the struct does not have, and
// the key that was probably meant ("" where nothing is near).
func unknownKey(key string, in reflect.Type) (message, meant string) {
	if _, ok := fieldsOf(in)["password_file"]; ok && isSecret(key) {
		return `unknown key: secrets stand in files of their own, did you mean "password_file"?`, "password_file"
	}
	keys := keysOf(in)
	near, distance := nearest(key, keys)
	if distance <= tolerance(key) {
		return fmt.Sprintf("unknown key, did you mean %q?", near), near
	}
	if where := sectionsWith(key, reflect.TypeFor[Config](), ""); len(where) > 0 {
		return fmt.Sprintf("unknown key here, it belongs to %s (the nearest key here is %q)", strings.Join(where, " or "), near), ""
	}
	return fmt.Sprintf("unknown key, the nearest is %q; valid here are %s", near, strings.Join(keys, ", ")), ""
}

func isSecret(key string) bool {
	switch normal(key) {
	case "password", "passwd", "pass", "secret", "passphrase":
		return true
	}
	return false
}

// tolerance is the distance up to which a key is taken for a slip of another.
func tolerance(key string) int { return max(1, min(3, len([]rune(key))/3)) }

// sectionsWith names the places of the schema that have the key.
func sectionsWith(key string, t reflect.Type, path string) (where []string) {
	fields := fieldsOf(t)
	if _, ok := fields[key]; ok {
		where = append(where, cmp.Or(path, "the top level"))
	}
	for i := range t.NumField() { // in the order of the schema
		section, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		inner, list := t.Field(i).Type, ""
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			if inner.Kind() == reflect.Slice {
				list = "[]"
			}
			inner = inner.Elem()
		}
		if isSection(inner) {
			where = append(where, sectionsWith(key, inner, join(path, section+list))...)
		}
	}
	return where
}

// isSection reports whether the type is a section of keys, and not a quantity that
// is held in a struct.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// nearest gives the candidate nearest to word, and how far it is. Of equals it
// is the first. A word that a candidate begins or ends with, up to an
// underscore, is as near as one slip.
func nearest(word string, candidates []string) (near string, distance int) {
	distance = -1
	for _, c := range candidates {
		d := editDistance(normal(word), normal(c))
		if sharesWord(normal(word), normal(c)) {
			d = min(d, 1)
		}
		if distance < 0 || d < distance {
			near, distance = c, d
		}
	}
	return near, distance
}

func sharesWord(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	return strings.HasPrefix(a, b+"_") || strings.HasSuffix(a, "_"+b)
}

// normal evens out what people write one way or the other.
func normal(key string) string { return strings.ReplaceAll(strings.ToLower(key), "-", "_") }

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b (the optimal string alignment distance).
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	const most = 64 // no key is as long; a longer word is far from all of them
	if len(s) > most || len(t) > most {
		return max(len(s), len(t))
	}
	before, last := make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row := make([]int, len(t)+1)
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(t)]
}
