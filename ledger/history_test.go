package ledger

import (
	"fmt"
	"testing"
	"time"
)

// Pages of any size give the whole journal once, in order; bounds and tank select.
func TestJournalPages(t *testing.T) {
	r := newRig(t, Tank{ID: "A", Initial: grams(100)})
	for i := range 20 {
		tankID := []string{"A", "B"}[i%2]
		r.send("consumed", fmt.Sprintf(`{"event_id":"e%d","tank":%q,"amount":1,"occurred_at":%s}`, i, tankID, ago(100-i)))
	}
	r.send("consumed", `{"event_id":"e0","tank":"A","amount":1,"occurred_at":`+ago(100)+`}`) // a duplicate leaves no row
	all := func(q Query) (ids []string) {
		for {
			list, next, done, err := r.l.Journal(q)
			if err != nil || len(list) > q.Limit {
				t.Fatalf("page of %+v: %d rows, %v", q, len(list), err)
			}
			for _, row := range list {
				ids = append(ids, row.Type[:1]+row.EventID)
			}
			if done {
				return ids
			}
			q.After = next
		}
	}
	for _, limit := range []int{1, 3, 1000} {
		r.want("all rows", len(all(Query{Limit: limit})), 21)
		r.want("tank A, from e4 on, before e10", all(Query{Tank: "A", Limit: limit, From: noon.Add(-96 * time.Second), To: noon.Add(-90 * time.Second)}), "[Oe4 Oe6 Oe8]")
		r.want("opening first", all(Query{Tank: "A", Limit: limit, To: noon.Add(-99 * time.Second)}), "[O Oe0]")
	}
	events, err := r.l.Events("A", 2)
	if err != nil || len(events) != 2 || events[0].EventID != "e18" || events[0].Amount.String() != "1 g" {
		t.Errorf("newest: %+v, %v", events, err)
	}
}
