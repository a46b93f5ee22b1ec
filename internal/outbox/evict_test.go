package outbox

import (
	"testing"

	"oxyd/internal/event"
)

// Where space is short, what the ledgers of confirm_by have goes first.
func TestConfirmedRowsGoFirst(t *testing.T) {
	for name, by := range map[string][]string{"configured": {"main", "second"}, "the first heard": nil} {
		t.Run(name, func(t *testing.T) {
			o := smallOptions(t)
			o.ConfirmBy = by
			b := open(t, o)
			n := uint64(fill(t, b, someDeltas(100)))
			drain(t, b)
			gap := event.Range{From: 11, To: 20}
			// The tail is not confirmed, and of the rest not all; "second", where it
			// counts, has less.
			through := n - 500
			for _, l := range []string{"main", "second"} {
				b.LedgerStatus(l, 1, true)
				s := event.ConfirmStream{Epoch: b.epoch, Tank: "A", Through: through, Missing: []event.Range{gap}}
				if l == "second" {
					s.Through -= 100
				}
				err := b.Heard(event.Confirm{Ledger: l, Incarnation: 1, Source: "ctl-3", NewestEpoch: b.epoch, Streams: []event.ConfirmStream{s}})
				if err != nil {
					t.Fatal(err)
				}
			}
			if by != nil {
				through -= 100
			}
			left := func() (confirmed, others int) {
				t.Helper()
				for seq := uint64(1); seq <= n; seq++ {
					_, found, err := b.Lookup(event.NodeID("ctl-3", b.epoch, "A", seq))
					if err != nil {
						t.Fatal(err)
					}
					if !found {
						continue
					}
					if seq > through || gap.From <= seq && seq <= gap.To {
						others++
					} else {
						confirmed++
					}
				}
				return confirmed, others
			}
			want := int(n-through) + 10
			evictAll := func(until func(confirmed int) bool) {
				t.Helper()
				for {
					confirmed, others := left()
					if confirmed > 0 && others != want {
						t.Fatalf("%d unconfirmed of %d while %d confirmed are left", others, want, confirmed)
					}
					if until(confirmed) {
						return
					}
					b.mu.Lock()
					_, err := b.evictSlice()
					b.mu.Unlock()
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			evictAll(func(confirmed int) bool { return confirmed == 0 })
			if s := mustStats(t, b); s.EvictedLacking != 0 || s.Evicted != uint64(int(n)-want) {
				t.Errorf("evicted %d, %d of them unconfirmed, want %d, 0", s.Evicted, s.EvictedLacking, int(n)-want)
			}
			if b.lacking.on {
				t.Error("said to give up what no ledger has while it gave up what they have")
			}
			b.mu.Lock()
			removed, err := b.evictSlice()
			b.mu.Unlock()
			if _, others := left(); err != nil || removed != sliceRows || others != want-removed {
				t.Errorf("removed %d, %v: %d are left of %d", removed, err, others, want)
			}
			if !b.lacking.on {
				t.Error("nothing says that it gives up what no ledger has")
			}
		})
	}
}

func TestFirstLedgerHeardIsRemembered(t *testing.T) {
	clock, l, a := setUp(t)
	_ = clock
	mustAppend(t, l.b, deltas("A", 2)...)
	l.run(t)
	offline := newAccount("aaa")
	offline.seen = a.seen
	offline.tell(t, l.b) // never online
	a.tell(t, l.b)
	later := newAccount("bbb")
	later.seen = a.seen
	l.b.LedgerStatus("bbb", 1, true)
	later.tell(t, l.b)
	for range 2 {
		if by := mustStats(t, l.b).ConfirmBy; len(by) != 1 || by[0] != "main" {
			t.Errorf("confirm by %v, want main", by)
		}
		l.b = crash(t, l.b)
	}
}
