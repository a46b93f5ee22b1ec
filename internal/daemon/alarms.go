package daemon

import (
	"slices"
	"strings"
	"sync"
	"time"

	"oxyd/internal/web"
)

// Severities of an alarm.
const (
	warning  = "warning"
	critical = "critical"
)

// alarmDocument is one thing that an operator has to see to, in the form of
// contract section 3.
type alarmDocument struct {
	Kind         string     `json:"kind"`
	Severity     string     `json:"severity"`
	Since        time.Time  `json:"since,omitzero"` // not known while the clock was never set
	Text         string     `json:"text"`
	Acknowledged *time.Time `json:"acknowledged"`
}

// alarmBoard holds the alarms of this process, one of a kind. They say what holds
// now: they are made of the state of the stations and end with it.
type alarmBoard struct {
	mu sync.Mutex
	on map[string]alarmDocument
}

// set raises the alarm, or ends it where text is empty, and reports whether that
// is news.
func (a *alarmBoard) set(kind, severity, text string) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, stood := a.on[kind]
	if text == "" {
		delete(a.on, kind)
		return stood
	}
	if !stood {
		was.Since = time.Now()
	}
	changed = was.Text != text || was.Severity != severity
	was.Kind, was.Severity, was.Text = kind, severity, text
	if a.on == nil {
		a.on = map[string]alarmDocument{}
	}
	a.on[kind] = was
	return changed
}

// list gives the alarms by kind; never nil, so that none is a list too.
func (a *alarmBoard) list() []alarmDocument {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]alarmDocument, 0, len(a.on))
	for _, alarm := range a.on {
		alarm.Since = shown(alarm.Since)
		list = append(list, alarm)
	}
	slices.SortFunc(list, func(x, y alarmDocument) int { return strings.Compare(x.Kind, y.Kind) })
	return list
}

// raise sets an alarm and logs the change.
func (b *board) raise(a *alarmBoard, kind, severity, text string) {
	if !a.set(kind, severity, text) {
		return
	}
	b.tellAlarm(kind, severity, text)
	if text == "" {
		b.log.Info().Str("alarm", kind).Msg("alarm has ended")
		return
	}
	b.log.Error().Str("alarm", kind).Str("severity", severity).Msg(text)
}

func alarmMetrics(part string, a *alarmBoard) []web.Metric {
	list := []web.Metric{}
	for _, alarm := range a.list() {
		list = append(list, web.Metric{Name: "oxyd_alarm", Type: "gauge", Help: "1 while the alarm stands.",
			Labels: map[string]string{"part": part, "kind": alarm.Kind, "severity": alarm.Severity}, Value: 1})
	}
	return list
}
