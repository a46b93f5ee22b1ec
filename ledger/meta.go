package ledger

import "math"

// Stamps are nanoseconds since 1970, UTC. beforeAll stands below every instant:
// a retained snapshot without usable time, and the opening amount.
const (
	beforeAll = math.MinInt64
	noInstant = math.MinInt64
)

// counters are kept for ever, by outcome, with the two cases that the contract
// wants counted apart.
type counters struct {
	outcomes   [Applied + 1]uint64
	unverified uint64 // duplicates by number whose content could not be compared
	evicted    uint64 // quarantined messages that went at the bound

	retried, discarded uint64 // decisions of operators that changed something
	discardedAgain     uint64 // repeats of what was discarded
}

// meta is the row of what belongs to the account as a whole.
type meta struct {
	incarnation uint64
	receipt     int64  // the last receipt instant given
	lsn         uint64 // the last journal row
	chain       [16]byte
	facts       facts
	tanks       uint64
	sources     uint64
	parked      uint64
	quarNext    uint64 // next key of quarorder
	quarBytes   uint64 // payload bytes in quarantine
	quarRows    uint64
	replacement bool // Options.Replacement, for ever
	counters
}

func (m *meta) encode() []byte {
	e := make(encoder, 0, 256)
	e.u64(m.incarnation)
	e.i64(m.receipt)
	e.u64(m.lsn)
	e = append(e, m.chain[:]...)
	e = append(e, m.facts[:]...)
	for _, v := range []uint64{m.tanks, m.sources, m.parked, m.quarNext, m.quarBytes, m.quarRows, m.unverified, m.evicted,
		m.retried, m.discarded, m.discardedAgain} {
		e.u64(v)
	}
	for _, v := range m.outcomes {
		e.u64(v)
	}
	e.bool(m.replacement)
	return e
}

func decodeMeta(row []byte) (meta, error) {
	d := decoder{b: row}
	m := meta{incarnation: d.u64(), receipt: d.i64(), lsn: d.u64()}
	copy(m.chain[:], d.take(16))
	copy(m.facts[:16], d.take(16))
	copy(m.facts[16:], d.take(16))
	for _, v := range []*uint64{&m.tanks, &m.sources, &m.parked, &m.quarNext, &m.quarBytes, &m.quarRows, &m.unverified, &m.evicted,
		&m.retried, &m.discarded, &m.discardedAgain} {
		*v = d.u64()
	}
	for i := range m.outcomes {
		m.outcomes[i] = d.u64()
	}
	m.replacement = d.bool()
	return m, d.done()
}
