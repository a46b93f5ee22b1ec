package event

import (
	"fmt"

	"github.com/go-json-experiment/json"
)

// Bounds of a confirmation (contract section 7). A document beyond one of them is
// refused as a whole: what it says of the rest could not be relied on.
const (
	MaxConfirmBytes   = 64 << 10
	MaxConfirmStreams = 512 // streams named
	MaxConfirmRanges  = 64  // ranges of missing numbers, over all streams
	MaxConfirmFenced  = 64
)

// Confirm is what a ledger says, retained, of the numbered events of one source
// that have reached it: the end-to-end confirmation.
type Confirm struct {
	Ledger      string
	Incarnation uint64 // of the ledger's store
	Source      string
	NewestEpoch uint64   // that the ledger has met; 0: none
	Fenced      []uint64 // epochs that the source must leave
	// More: there are other streams, or other ranges, than those named. What lies
	// beyond a stream's Through is then not known to be missing or lost; except that,
	// of at most MaxConfirmRanges streams, one that lists none missing ends there.
	More    bool
	Streams []ConfirmStream
}

// ConfirmStream says which numbers of one (epoch, tank) are accounted for: every
// one up to Through, except Missing, whose ranges are disjoint and ascending. A
// number that its source has declared skipped is not in Missing.
type ConfirmStream struct {
	Epoch   uint64
	Tank    string
	Through uint64 // 0: none
	Missing []Range
}

type wireConfirm struct {
	Ledger      string              `json:"ledger"`
	Incarnation uint64              `json:"incarnation"`
	Source      string              `json:"source"`
	NewestEpoch uint64              `json:"newest_epoch"`
	Fenced      []uint64            `json:"fenced"`
	More        bool                `json:"more"`
	Streams     []wireConfirmStream `json:"streams"`
}

type wireConfirmStream struct {
	Epoch   uint64      `json:"epoch"`
	Tank    string      `json:"tank"`
	Through uint64      `json:"through"`
	Missing [][2]uint64 `json:"missing"`
}

// EncodeConfirm gives the document as it is published. The same confirmation
// gives the same bytes.
func EncodeConfirm(c *Confirm) ([]byte, error) {
	w := wireConfirm{c.Ledger, c.Incarnation, c.Source, c.NewestEpoch, c.Fenced, c.More, make([]wireConfirmStream, 0, len(c.Streams))}
	for _, s := range c.Streams {
		missing := make([][2]uint64, 0, len(s.Missing))
		for _, r := range s.Missing {
			missing = append(missing, [2]uint64{r.From, r.To})
		}
		w.Streams = append(w.Streams, wireConfirmStream{s.Epoch, s.Tank, s.Through, missing})
	}
	doc, err := json.Marshal(&w) // a nil slice is [] here
	if err != nil {
		return nil, fmt.Errorf("encode the confirmation of %s: %w", c.Source, err)
	}
	return doc, nil
}

// DecodeConfirm reads a document. Whatever it accepts is within the bounds above
// and keeps the order that ConfirmStream promises.
func DecodeConfirm(doc []byte) (Confirm, error) {
	if len(doc) > MaxConfirmBytes {
		return Confirm{}, fmt.Errorf("decode confirmation: %d bytes, at most %d", len(doc), MaxConfirmBytes)
	}
	var w wireConfirm
	if err := json.Unmarshal(doc, &w); err != nil {
		return Confirm{}, fmt.Errorf("decode confirmation: %w", err)
	}
	c := Confirm{Ledger: w.Ledger, Incarnation: w.Incarnation, Source: w.Source, NewestEpoch: w.NewestEpoch,
		Fenced: w.Fenced, More: w.More}
	if err := c.checkHead(); err != nil {
		return Confirm{}, fmt.Errorf("decode confirmation: %w", err)
	}
	if len(w.Streams) > MaxConfirmStreams {
		return Confirm{}, fmt.Errorf("decode confirmation: %d streams, at most %d", len(w.Streams), MaxConfirmStreams)
	}
	ranges := 0
	for i := range w.Streams {
		ranges += len(w.Streams[i].Missing)
		s, err := w.Streams[i].stream()
		if err != nil {
			return Confirm{}, fmt.Errorf("decode confirmation: stream %d: %w", i, err)
		}
		c.Streams = append(c.Streams, s)
	}
	if ranges > MaxConfirmRanges {
		return Confirm{}, fmt.Errorf("decode confirmation: %d ranges, at most %d", ranges, MaxConfirmRanges)
	}
	return c, nil
}

func (c *Confirm) checkHead() error {
	switch {
	case !ValidName(c.Ledger):
		return fmt.Errorf("ledger %s is no name", quoteShort([]byte(c.Ledger)))
	case !ValidName(c.Source):
		return fmt.Errorf("source %s is no name", quoteShort([]byte(c.Source)))
	case c.NewestEpoch > MaxEpoch:
		return fmt.Errorf("newest epoch %d is beyond %d", c.NewestEpoch, uint64(MaxEpoch))
	case len(c.Fenced) > MaxConfirmFenced:
		return fmt.Errorf("%d fenced epochs, at most %d", len(c.Fenced), MaxConfirmFenced)
	}
	return nil
}

func (w *wireConfirmStream) stream() (ConfirmStream, error) {
	s := ConfirmStream{Epoch: w.Epoch, Tank: w.Tank, Through: w.Through}
	switch {
	case !ValidName(s.Tank):
		return s, fmt.Errorf("tank %s is no name", quoteShort([]byte(s.Tank)))
	case s.Epoch == 0 || s.Epoch > MaxEpoch || s.Through > MaxSeq:
		return s, fmt.Errorf("epoch %d, through %d: out of range", s.Epoch, s.Through)
	}
	var last uint64
	for _, r := range w.Missing {
		if r[0] <= last || r[1] < r[0] || r[1] > s.Through {
			return s, fmt.Errorf("missing [%d,%d] is no run above %d and up to through %d", r[0], r[1], last, s.Through)
		}
		last = r[1]
		s.Missing = append(s.Missing, Range{From: r[0], To: r[1]})
	}
	return s, nil
}
