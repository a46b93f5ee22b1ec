package ledger

import (
	"fmt"
	"testing"

	"go.etcd.io/bbolt"

	"oxyd/internal/event"
)

func TestFirstAnswerStays(t *testing.T) {
	r := newRigIn(t, memoryDir(t))
	id := event.Identity{Source: "ctl-1", ID: "k"}
	if _, ok, err := r.l.Answer(id); ok || err != nil {
		t.Fatalf("before there is one: %v, %v", ok, err)
	}
	keep := func(answer string) string {
		t.Helper()
		kept, err := r.l.KeepAnswer(id, []byte(answer))
		if err != nil {
			t.Fatal(err)
		}
		return string(kept)
	}
	r.want("first", keep("one"), "one")
	r.want("second", keep("two"), "one")
	r.reopen()
	answer, ok, err := r.l.Answer(id)
	if string(answer) != "one" || !ok || err != nil {
		t.Errorf("after a restart: %q, %v, %v", answer, ok, err)
	}
	if _, ok, _ := r.l.Answer(event.Identity{ID: "k"}); ok {
		t.Error("the anonymous source's has it too")
	}
	if _, err := r.l.KeepAnswer(id, make([]byte, maxAnswerBytes+1)); err == nil {
		t.Error("an answer without bound is kept")
	}
}

func TestAnswersAreBounded(t *testing.T) {
	r := newRigIn(t, memoryDir(t))
	of := func(i int) event.Identity { return event.Identity{Source: "s", ID: fmt.Sprint(i)} }
	for i := range MaxAnswers + 2 {
		if _, err := r.l.KeepAnswer(of(i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range map[int]bool{0: false, 1: false, 2: true, MaxAnswers + 1: true} {
		if _, ok, err := r.l.Answer(of(i)); ok != want || err != nil {
			t.Errorf("answer %d: %v, %v", i, ok, err)
		}
	}
	if err := r.l.Check(); err != nil {
		t.Fatal(err)
	}
	for name, harm := range map[string]func(*bbolt.Tx) error{
		"an answer is gone":    func(tx *bbolt.Tx) error { return tx.Bucket([]byte("answers")).Delete(idKey("s", "5")) },
		"its place is another": func(tx *bbolt.Tx) error { return tx.Bucket([]byte("answerorder")).Put(lsnKey(7), idKey("s", "8")) },
	} {
		err := r.l.file.Update(func(tx *bbolt.Tx) error {
			if err := harm(tx); err != nil {
				return err
			}
			b := &batch{metaRow: tx.Bucket([]byte("meta"))}
			if b.checkAnswers() == nil {
				t.Errorf("check does not notice: %s", name)
			}
			return fmt.Errorf("roll back")
		})
		if err == nil {
			t.Fatal("not rolled back")
		}
	}
}

// What was received first is what an identity holds, whatever came after it.
func TestContent(t *testing.T) {
	r := newRigIn(t, memoryDir(t), Tank{ID: "A", Initial: grams(847)})
	r.send("consumed", `{"event_id":"e","tank":"A","source":"s","amount":120,"operation":"op"}`)
	r.send("consumed", `{"event_id":"e","tank":"A","source":"s","amount":121}`)
	e, ok, err := r.l.Content(event.Identity{Source: "s", ID: "e"})
	if err != nil || !ok || e.Amount != *grams(120) || e.Operation != "op" {
		t.Errorf("content %+v, %v, %v", e, ok, err)
	}
	if _, ok, err := r.l.Content(event.Identity{ID: "e"}); ok || err != nil {
		t.Errorf("of another source: %v, %v", ok, err)
	}
}
