package web

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"oxyd/internal/event"
)

const keyHint = "make a new event_id for each fact and send the same one with each repeat, in the body or as Idempotency-Key"

// decode makes an event of a body: the JSON of contract section 4 with the type
// in it. What the node gives is added, and the codec of the wire judges the
// result, so that an event that is taken here is one that every ledger takes.
func (a *api) decode(body []byte, keys []string) (Record, error) {
	members, err := membersOf(body)
	if err != nil {
		return Record{}, err
	}
	for _, name := range []string{"source", "epoch", "seq", "stands_for", "age"} {
		if _, ok := members[name]; ok {
			return Record{}, badRequest("leave it out", "%s: the node gives it", name)
		}
	}
	kind, err := kindOf(members["type"])
	if err != nil {
		return Record{}, err
	}
	tank, ok := textOf(members["tank"])
	if !ok || !event.ValidName(tank) {
		return Record{}, badRequest("", "tank: want the name of a tank, [A-Za-z0-9][A-Za-z0-9._-]{0,63}")
	}
	id, err := idOf(members["event_id"], keys)
	if err != nil {
		return Record{}, err
	}
	members["type"], members["event_id"] = quote(kind.String()), quote(id)
	if a.board.Source != "" {
		members["source"] = quote(a.board.Source)
	}
	message, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return Record{}, fmt.Errorf("make event: %w", err)
	}
	e, err := event.Decode(kind, tank, message)
	if form, ok := errors.AsType[*event.FormError](err); ok && form.Reason == event.TooLarge {
		return Record{}, tooLarge()
	}
	if err != nil {
		return Record{}, badRequest("", "the event is not acceptable: %v", err)
	}
	if e.Version != event.WireVersion {
		return Record{}, badRequest("leave v out", "v: this program records version %d", event.WireVersion)
	}
	return Record{Event: e, Key: e.ID}, nil
}

// membersOf cuts the one JSON object of a body into its members. A name that
// stands twice is refused: two readers could understand it in two ways.
func membersOf(body []byte) (map[string]jsontext.Value, error) {
	if text := bytes.TrimLeft(body, " \t\r\n"); len(text) == 0 || text[0] != '{' {
		return nil, badRequest(`such as {"type":"OxygenConsumed","event_id":"e-8842","tank":"A","amount":120}`, "the body is no JSON object")
	}
	var members map[string]jsontext.Value
	err := json.Unmarshal(body, &members)
	if at, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return nil, badRequest("", "the body is not well-formed JSON: %v at byte %d", at.Err, at.ByteOffset)
	}
	if err != nil {
		return nil, badRequest("", "the body is not well-formed JSON")
	}
	return members, nil
}

// kindOf reads the type by its name or by its word in a topic.
func kindOf(raw jsontext.Value) (event.Type, error) {
	const hint = "OxygenConsumed, OxygenMeasured, OxygenRefilled or OxygenReversed; short: consumed, measured, refilled, reversed"
	if raw == nil {
		return 0, badRequest(hint, "type: absent")
	}
	name, _ := textOf(raw)
	for _, t := range []event.Type{event.Measured, event.Consumed, event.Refilled, event.Reversed} {
		if name == t.String() || name == t.Topic() {
			return t, nil
		}
	}
	return 0, badRequest(hint, "type: is not one that can be recorded")
}

// idOf finds the caller's key in the body, in the header, or the same in both.
func idOf(raw jsontext.Value, keys []string) (string, error) {
	key, err := keyOf(keys)
	if err != nil {
		return "", err
	}
	id, ok := textOf(raw)
	switch {
	case raw != nil && (!ok || id == ""):
		return "", badRequest(keyHint, "event_id: want text that is not empty")
	case id == "" && key == "":
		return "", badRequest(keyHint, "the event has no event_id")
	case id != "" && key != "" && id != key:
		return "", &fault{status: http.StatusUnprocessableEntity, text: "event_id and Idempotency-Key differ", hint: "send one of them, or the same in both"}
	case id == "":
		return key, nil
	}
	return id, nil
}

// textOf gives the text of a JSON string.
func textOf(raw jsontext.Value) (string, bool) {
	if raw.Kind() != jsontext.KindString {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), err == nil
}

// quote makes a JSON string of text that is UTF-8.
func quote(text string) jsontext.Value {
	quoted, _ := jsontext.AppendQuote(nil, text)
	return quoted
}
