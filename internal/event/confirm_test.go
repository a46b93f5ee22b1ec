package event

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const confirmOfTheContract = `{"ledger":"main","incarnation":3,"source":"ctl-3","newest_epoch":1850222837760000,"fenced":[],"more":false,` +
	`"streams":[{"epoch":1850222837760000,"tank":"A","through":1042,"missing":[[990,992]]}]}`

func TestConfirmIsThatOfTheContract(t *testing.T) {
	c := Confirm{Ledger: "main", Incarnation: 3, Source: "ctl-3", NewestEpoch: 1850222837760000, Streams: []ConfirmStream{
		{Epoch: 1850222837760000, Tank: "A", Through: 1042, Missing: []Range{{990, 992}}}}}
	doc, err := EncodeConfirm(&c)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(doc); got != confirmOfTheContract {
		t.Errorf("document is\n%s, want\n%s", got, confirmOfTheContract)
	}
	back, err := DecodeConfirm(doc)
	if err != nil {
		t.Fatal(err)
	}
	back.Fenced = nil // [] on the wire
	if diff := cmp.Diff(c, back); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

func TestConfirmRefuses(t *testing.T) {
	change := func(old, is string) string { return strings.Replace(confirmOfTheContract, old, is, 1) }
	for name, doc := range map[string]string{
		"no JSON":            `{`,
		"a list":             `[]`,
		"two names":          change(`"ledger":"main"`, `"ledger":"main","ledger":"other"`),
		"no ledger":          change(`"main"`, `""`),
		"a strange source":   change(`"ctl-3"`, `"ctl/3"`),
		"a fraction":         change(`1042`, `1042.5`),
		"less than nothing":  change(`1042`, `-1`),
		"epoch 0":            change(`{"epoch":1850222837760000`, `{"epoch":0`),
		"an absurd epoch":    change(`"newest_epoch":1850222837760000`, `"newest_epoch":9007199254740992`),
		"a run backwards":    change(`[990,992]`, `[992,990]`),
		"runs that overlap":  change(`[990,992]`, `[990,992],[992,993]`),
		"missing beyond":     change(`[990,992]`, `[1000,1043]`),
		"number 0 missing":   change(`[990,992]`, `[0,992]`),
		"half a run":         change(`[990,992]`, `[990]`),
		"too many ranges":    change(`[990,992]`, strings.TrimSuffix(manyRuns(65), ",")),
		"something after it": confirmOfTheContract + `{}`,
	} {
		if got, err := DecodeConfirm([]byte(doc)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
	if _, err := DecodeConfirm([]byte(change(`[990,992]`, strings.TrimSuffix(manyRuns(64), ",")))); err != nil {
		t.Errorf("64 ranges: %v", err)
	}
}

// manyRuns gives n runs of one number each, every other number from 1 on.
func manyRuns(n uint64) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "[%d,%d],", 2*i+1, 2*i+1)
	}
	return b.String()
}

func FuzzDecodeConfirm(f *testing.F) {
	f.Add([]byte(confirmOfTheContract))
	f.Fuzz(func(t *testing.T, doc []byte) {
		c, err := DecodeConfirm(doc)
		if err != nil {
			return
		}
		again, err := EncodeConfirm(&c)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeConfirm(again)
		if diff := cmp.Diff(c, back, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%v, (-once +twice):\n%s", err, diff)
		}
	})
}
