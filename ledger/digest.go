package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"

	"oxyd/internal/event"
)

// facts is the sum modulo 2²⁵⁶ of one SHA-256 for every accepted event, so that
// two ledgers that accepted the same set have the same facts in whatever order
// it came. Big-endian.
type facts [32]byte

func (f *facts) add(o facts) {
	var carry uint64
	for i := 24; i >= 0; i -= 8 {
		var sum uint64
		sum, carry = bits.Add64(binary.BigEndian.Uint64(f[i:]), binary.BigEndian.Uint64(o[i:]), carry)
		binary.BigEndian.PutUint64(f[i:], sum)
	}
}

func (f *facts) sub(o facts) {
	var borrow uint64
	for i := 24; i >= 0; i -= 8 {
		var diff uint64
		diff, borrow = bits.Sub64(binary.BigEndian.Uint64(f[i:]), binary.BigEndian.Uint64(o[i:]), borrow)
		binary.BigEndian.PutUint64(f[i:], diff)
	}
}

// factOf is what one accepted event adds.
func factOf(id event.Identity, hash event.Hash) facts {
	return sha256.Sum256(append(identityBytes(id), hash[:]...))
}

// factOf is the same in the batch's own memory.
func (b *batch) factOf(id event.Identity, hash event.Hash) facts {
	b.scratch = append(append(b.scratch[:0], id.Source...), 0)
	b.scratch = append(append(b.scratch, id.ID...), 0)
	b.scratch = append(b.scratch, hash[:]...)
	return sha256.Sum256(b.scratch)
}

// conflictOf is what an identity adds once it was met with two contents.
func conflictOf(id event.Identity) facts {
	return sha256.Sum256(append(identityBytes(id), "conflict"...))
}

// identityBytes joins source and id so that no other pair gives the same bytes:
// neither contains a zero byte.
func identityBytes(id event.Identity) []byte {
	b := make([]byte, 0, 160)
	b = append(append(b, id.Source...), 0)
	return append(append(b, id.ID...), 0)
}

// contentOf reads identity and content hash of a journalled event. A row that does
// not give the content that its entry stands for is damaged.
func (b *batch) contentOf(n *entry) (event.Identity, event.Hash, error) {
	r, err := parseRecord(b.row(n.lsn))
	if err != nil {
		return event.Identity{}, event.Hash{}, fmt.Errorf("journal row %d: %w", n.lsn, err)
	}
	e, err := r.event()
	if err != nil {
		return event.Identity{}, event.Hash{}, fmt.Errorf("journal row %d: %w", n.lsn, err)
	}
	hash := e.Hash()
	if !bytes.Equal(hash[:len(n.hash)], n.hash[:]) {
		return event.Identity{}, event.Hash{}, fmt.Errorf("journal row %d is not the content of its entry: %w", n.lsn, errRow)
	}
	return e.Identity(), hash, nil
}

// digest is the SHA-256 over each tank's opening amount, balance, totals and
// baseline identity, in the order of their ids, and the facts. A tank of which all
// of these are nothing is left out: whether it has an account hangs on the config,
// and on whether a reversal that went astray came first. Where every clock
// was usable nothing in it depends on arrival, so that two ledgers on the same
// events can prove that they agree (R16).
func (b *batch) digest() (string, error) {
	h := sha256.New()
	err := b.tanks.ForEach(func(id, _ []byte) error {
		a, err := b.account(string(id))
		if err != nil {
			return err
		}
		if a.opening == nil && a.baseline == nil && a.all.consumed.IsZero() && a.all.refilled.IsZero() {
			return nil
		}
		balance, known := a.balance()
		fmt.Fprintf(h, "%s\n%s\n%s\n%s %s\n%s\n", id, orNull(a.opening), orNull(ptrIf(known, balance)),
			a.all.consumed, a.all.refilled, a.baselineIdentity())
		return nil
	})
	h.Write(b.meta.facts[:])
	return hex.EncodeToString(h.Sum(nil)), err
}

func (a *account) baselineIdentity() string {
	s := a.inForce()
	if s == nil {
		return "null"
	}
	return fmt.Sprintf("%q %q", a.baseline.source, s.id)
}

func orNull(s *Sum) string {
	if s == nil {
		return "null"
	}
	return s.String()
}

func ptrIf[T any](ok bool, v T) *T {
	if !ok {
		return nil
	}
	return &v
}

// String gives the facts in hex, as the status document shows them.
func (f facts) String() string { return hex.EncodeToString(f[:]) }
