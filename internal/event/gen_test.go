package event

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"periph.io/x/conn/v3/physic"
	"pgregory.net/rapid"
)

// The generators below draw events that Decode can give, and spellings of them.

func genName() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"A", "ctl-3", "flow-2", "0", "a.b_c-D", strings.Repeat("n", MaxNameBytes)}),
		rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,63}`))
}

// genLine draws printable text of 1 to most bytes.
func genLine(most int) *rapid.Generator[string] {
	ok := func(s string) bool { return s != "" && len(s) <= most && printable([]byte(s)) }
	return rapid.OneOf(
		rapid.SampledFrom([]string{"e-8842", `"\/`, "ä – 🚀", "</a>&", "\ufffd", strings.Repeat("i", most)}),
		rapid.String().Filter(ok))
}

func genMass(least physic.Mass) *rapid.Generator[physic.Mass] {
	return rapid.OneOf(
		rapid.SampledFrom([]physic.Mass{least, 1, physic.MilliGram, 727 * physic.Gram, MaxAmount - 1, MaxAmount}),
		rapid.Custom(func(t *rapid.T) physic.Mass {
			return physic.Mass(rapid.Int64Range(int64(least), int64(MaxAmount)).Draw(t, "ng"))
		}))
}

func genNumber() *rapid.Generator[uint64] {
	return rapid.OneOf(
		rapid.SampledFrom([]uint64{1, 2, 1042, 999999999999, 1000000000000, MaxSeq - 1, MaxSeq}),
		rapid.Uint64Range(1, MaxSeq))
}

func genInstant() *rapid.Generator[time.Time] {
	first := time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC) // the zero instant is none
	last := time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	return rapid.Custom(func(t *rapid.T) time.Time {
		s := rapid.Int64Range(first.Unix(), last.Unix()).Draw(t, "second")
		ns := rapid.OneOf(rapid.SampledFrom([]int64{1, 5e8, 999999999}), rapid.Int64Range(1, 999999999)).Draw(t, "ns")
		return time.Unix(s, ns).UTC()
	})
}

func genEvent() *rapid.Generator[Event] {
	return rapid.Custom(func(t *rapid.T) Event {
		e := Event{
			Type:    rapid.SampledFrom([]Type{Measured, Consumed, Refilled, Reversed, Skipped}).Draw(t, "type"),
			ID:      genLine(MaxIDBytes).Draw(t, "id"),
			Tank:    genName().Draw(t, "tank"),
			Version: WireVersion,
		}
		coin := func(what string) bool { return rapid.Bool().Draw(t, what) }
		if coin("named") || e.Type == Skipped {
			e.Source = genName().Draw(t, "source")
			if coin("numbered") {
				e.Dot = Dot{genNumber().Draw(t, "epoch"), genNumber().Draw(t, "seq")}
			}
		}
		if coin("own id") && e.Numbered() {
			e.ID = NodeID(e.Source, e.Dot.Epoch, e.Tank, e.Dot.Seq)
		}
		if coin("foreign version") && coin("really") && coin("indeed") {
			e.Version = rapid.IntRange(2, MaxVersion).Draw(t, "v")
			return e
		}
		if coin("timed") {
			e.OccurredAt = genInstant().Draw(t, "at")
		}
		e.Unsynced = coin("unsynced")
		if e.HasAge = e.Unsynced && coin("aged"); e.HasAge {
			e.Age = time.Duration(rapid.Int64Range(0, int64(MaxAge)).Draw(t, "age"))
		}
		drawBody(t, &e, coin)
		return e
	})
}

// drawBody draws what only events of the type carry.
func drawBody(t *rapid.T, e *Event, coin func(string) bool) {
	if e.carriesAmount() {
		e.Suspect = coin("suspect")
		if e.Dot.Seq > 1 && coin("merged") {
			e.StandsFor = Range{rapid.Uint64Range(1, e.Dot.Seq-1).Draw(t, "from"), e.Dot.Seq}
		}
	}
	switch e.Type {
	case Measured:
		e.Amount = genMass(0).Draw(t, "remaining")
		if coin("covers") {
			dot := rapid.Custom(func(t *rapid.T) Dot { return Dot{genNumber().Draw(t, "e"), genNumber().Draw(t, "s")} })
			e.Covers = rapid.MapOfN(genName(), dot, 1, MaxCovers).Draw(t, "of")
		}
	case Consumed, Refilled:
		e.Amount = genMass(1).Draw(t, "amount")
		if coin("has operation") {
			e.Operation = genLine(MaxIDBytes).Draw(t, "operation")
		}
	case Reversed:
		e.Reverses = genLine(MaxIDBytes).Draw(t, "reverses")
		e.ReversesSource = rapid.OneOf(rapid.SampledFrom([]string{"", e.Source}), genName()).Draw(t, "its source")
	case Skipped:
		for range rapid.IntRange(1, 5).Draw(t, "runs") {
			from := genNumber().Draw(t, "from")
			e.Skips = append(e.Skips, Range{from, rapid.Uint64Range(from, MaxSeq).Draw(t, "to")})
		}
		e.SkipsEpoch = e.Dot.Epoch
		if !e.Numbered() || coin("other epoch") {
			e.SkipsEpoch = genNumber().Draw(t, "skips_epoch")
		}
		if coin("has reason") {
			e.Reason = genLine(MaxReasonBytes).Draw(t, "reason")
		}
	}
}

// speller writes an event in one of the many ways that mean the same.
type speller struct {
	t       *rapid.T
	members []string
}

// respell gives a message that must decode to e.
func respell(t *rapid.T, e *Event) []byte {
	s := speller{t: t}
	s.add("event_id", s.text(e.ID))
	s.add("tank", s.text(e.Tank))
	if s.coin("with type") {
		s.add("type", s.text(e.Type.String()))
	}
	if e.Version != WireVersion || s.coin("with v") {
		s.add("v", fmt.Sprint(e.Version))
	}
	if e.Source != "" {
		s.add("source", s.text(e.Source))
	}
	if e.Numbered() {
		s.add("epoch", fmt.Sprint(e.Dot.Epoch))
		s.add("seq", fmt.Sprint(e.Dot.Seq))
	}
	if e.Version == WireVersion {
		s.content(e)
	}
	if s.coin("with unknown") {
		s.add("weather", `{ "amount" : [null,{"a":1e999}], "v":2 }`)
		s.add("Amount", "-1")
	}
	members := rapid.Permutation(s.members).Draw(t, "order")
	return []byte(s.space() + "{" + strings.Join(members, ",") + "}" + s.space())
}

func (s *speller) content(e *Event) {
	if !e.OccurredAt.IsZero() {
		s.add("occurred_at", s.text(s.instant(e.OccurredAt)))
	}
	switch {
	case e.Unsynced:
		s.add("clock", s.text(clockUnsynced))
		if s.coin("any age") {
			s.add("age", rapid.SampledFrom([]string{"0", "-0", "1.5e2", "0.12345678901234567890123"}).Draw(s.t, "age"))
		}
	case s.coin("with clock"):
		s.add("clock", s.text(clockSynced))
		s.add("age", "-7")
	}
	if e.carriesAmount() {
		s.amount(e)
	}
	switch e.Type {
	case Measured:
		s.covers(e.Covers)
	case Consumed, Refilled:
		if e.Operation != "" || s.coin("empty operation") {
			s.add("operation", s.text(e.Operation))
		}
	case Reversed:
		s.add("reverses", s.text(e.Reverses))
		if e.ReversesSource != e.Source || s.coin("own source") {
			s.add("reverses_source", s.text(e.ReversesSource))
		}
	case Skipped:
		var runs []string
		for _, r := range e.Skips {
			runs = append(runs, s.pair(r.From, r.To))
		}
		s.add("skips", "["+strings.Join(runs, ",")+"]")
		if e.SkipsEpoch != e.Dot.Epoch || s.coin("own epoch") {
			s.add("skips_epoch", fmt.Sprint(e.SkipsEpoch))
		}
		if e.Reason != "" || s.coin("empty reason") {
			s.add("reason", s.text(e.Reason))
		}
	}
	if !e.Type.Delta() {
		s.add("amount", `"none"`) // another type's
	}
}

func (s *speller) amount(e *Event) {
	unit := rapid.SampledFrom([]string{"", "g", "kg", "mg"}).Draw(s.t, "unit")
	power := map[string]int{"": 9, "g": 9, "kg": 12, "mg": 6}[unit]
	if unit != "" {
		s.add("unit", s.text(unit))
	}
	name := "amount"
	if e.Type == Measured {
		name = "remaining"
	}
	s.add(name, s.mass(e.Amount, power))
	if e.Suspect {
		s.add("quality", s.text(qualitySuspect))
	} else if s.coin("with quality") {
		s.add("quality", s.text(qualityGood))
	}
	if e.standsForOthers() {
		s.add("stands_for", s.pair(e.StandsFor.From, e.StandsFor.To))
	} else if e.Numbered() && s.coin("stands for itself") {
		s.add("stands_for", s.pair(e.Dot.Seq, e.Dot.Seq))
	}
}

func (s *speller) covers(covers map[string]Dot) {
	var members []string
	for source, dot := range covers {
		members = append(members, s.text(source)+s.space()+":"+s.pair(dot.Epoch, dot.Seq))
	}
	slices.Sort(members)
	if len(members) > 0 || s.coin("empty covers") {
		s.add("covers", "{"+s.space()+strings.Join(members, ",")+"}")
	}
}

func (s *speller) coin(what string) bool { return rapid.Bool().Draw(s.t, what) }

func (s *speller) space() string {
	return rapid.SampledFrom([]string{"", " ", "\n\t", "\r\n  "}).Draw(s.t, "space")
}

func (s *speller) add(name, value string) {
	s.members = append(s.members, s.space()+s.text(name)+s.space()+":"+s.space()+value+s.space())
}

func (s *speller) pair(a, b uint64) string {
	return fmt.Sprintf("[%s%d%s,%d%s]", s.space(), a, s.space(), b, s.space())
}

// text quotes with or without needless escapes.
func (s *speller) text(text string) string {
	if rapid.IntRange(0, 3).Draw(s.t, "escape") > 0 {
		return string(appendQuoted(nil, text))
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, unit := range utf16.Encode([]rune(text)) {
		fmt.Fprintf(&b, `\u%04X`, unit)
	}
	b.WriteByte('"')
	return b.String()
}

func (s *speller) instant(at time.Time) string {
	zone := time.FixedZone("", 60*rapid.SampledFrom([]int{0, 60, -90, 345, 1439, -1439}).Draw(s.t, "zone"))
	if y := at.In(zone).Year(); y < 0 || y > 9999 {
		zone = time.UTC
	}
	layout := rapid.SampledFrom([]string{time.RFC3339Nano, "2006-01-02T15:04:05.000000000Z07:00"}).Draw(s.t, "layout")
	return at.In(zone).Format(layout)
}

// mass writes m ng as a number of a unit of 10^power ng: any place for the
// point, any number of zeros behind, the exponent to make up for both.
func (s *speller) mass(m physic.Mass, power int) string {
	digits := strconv.FormatInt(int64(m), 10)
	zeros := rapid.IntRange(0, 30).Draw(s.t, "zeros")
	digits += strings.Repeat("0", zeros)
	whole := rapid.IntRange(1, len(digits)).Draw(s.t, "point")
	if m == 0 {
		whole = 1
	}
	text := digits[:whole]
	if whole < len(digits) {
		text += "." + digits[whole:]
	}
	exponent := len(digits) - whole - zeros - power
	if exponent == 0 && s.coin("no exponent") {
		return text
	}
	return fmt.Sprintf("%s%s%+0*d", text, rapid.SampledFrom([]string{"e", "E"}).Draw(s.t, "e"),
		rapid.IntRange(1, 5).Draw(s.t, "width"), exponent)
}
