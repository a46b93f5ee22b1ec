package ledger

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// at makes a delta of a source that happened so many seconds after noon; without a
// time its clock is not synchronised.
func at(source string, epoch, seq int, seconds ...int) string {
	when := `"clock":"unsynced"`
	if len(seconds) > 0 {
		when = `"occurred_at":` + ago(-seconds[0])
	}
	return fmt.Sprintf(`{"event_id":"%d-%d","tank":"A","source":%q,"epoch":%d,"seq":%d,"amount":1,%s}`, epoch, seq, source, epoch, seq, when)
}

func (r *rig) boards(want string) {
	r.t.Helper()
	s, err := r.l.Status()
	if err != nil {
		r.t.Fatal(err)
	}
	r.want("two boards", s.TwoBoards, want)
	list, err := r.l.Sources()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, src := range list {
		r.want("boards of "+src.Source, src.Boards == 2, strings.Contains(want, src.Source))
	}
}

func (r *rig) epochs(source string) (text string) {
	r.t.Helper()
	list, err := r.l.Sources()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range list {
		for _, e := range s.Epochs {
			if s.Source == source {
				text += fmt.Sprintf("%d %s late %d", e.Epoch, e.Why, e.Late)
				if e.LivesOn != nil {
					text += fmt.Sprintf(" beside %d", e.Rival)
				}
				text += "; "
			}
		}
	}
	return text
}

func TestEpochsAreListedWithTheirWhy(t *testing.T) {
	r := newRig(t)
	r.clk.now = noon.Add(time.Minute)
	r.send("consumed", at("dev", 3, 1, 10))
	r.send("consumed", at("dev", 5, 1, 20))
	r.send("consumed", at("dev", 4, 1, 15))
	r.play(step{"consumed", at("dev", 2, 1), "quarantined/old_epoch", false})
	r.want("epochs", r.epochs("dev"), "5 newer late 0; 4 earlier late 1; 3 first late 0; ")
	r.retry(r.newest(), "")
	r.send("consumed", strings.Replace(at("dev", 4, 1, 15), `"amount":1`, `"amount":2`, 1))
	r.want("epochs", r.epochs("dev"), "5 newer late 0; 4 earlier late 1; 3 first late 0; 2 operator late 1; ")
	list, _ := r.l.Sources()
	e := list[0].Epochs
	r.want("fenced", fmt.Sprint(e[0].Fenced, e[1].Fenced), "false true")
	r.want("began", fmt.Sprint(*e[0].Began, e[3].Began), noon.Add(20*time.Second).String()+" <nil>")
	r.want("first heard", e[0].First.Sub(noon), time.Minute+time.Millisecond)
	r.want("last heard", e[1].Last.After(*e[0].Last), true)
	r.boards("[]")
}

// FC-28: what an outbox or a broker had held back of an earlier epoch, much of it
// and in turns with what is live, is no second board.
func TestFC28LeftoversAreNoSecondBoard(t *testing.T) {
	for name, unsynced := range map[string]bool{"with a clock": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			when := func(s int) []int {
				if unsynced {
					return nil
				}
				return []int{s}
			}
			r.send("consumed", at("dev", 1, 1, when(0)...))
			for i := range 200 {
				r.clk.now = noon.Add(2*time.Hour + time.Duration(i)*time.Minute)
				r.send("consumed", at("dev", 2, 1+i, when(7200+60*i)...))
				r.send("consumed", at("dev", 1, 2+i, when(1+i)...)) // held back
			}
			r.boards("[]")
			r.want("epochs", r.epochs("dev"), "2 newer late 0; 1 first late 200; ")
		})
	}
}

// A cloned card: both boards go on under one name, each in its own epoch.
func TestTwoBoardsUnderOneName(t *testing.T) {
	t.Run("with clocks", func(t *testing.T) {
		var log bytes.Buffer
		r := newRig(t).with(func(o *Options) { o.Log = zerolog.New(&log) })
		r.clk.now = noon.Add(10 * time.Minute)
		r.send("consumed", at("dev", 8, 1, 0))
		r.send("consumed", at("dev", 9, 1, 100))
		r.send("consumed", at("dev", 8, 2, 100)) // in the same moment: no sign yet
		r.send("consumed", at("dev", 8, 3, 160))
		r.send("consumed", at("dev", 8, 4, 161))
		r.send("consumed", at("dev", 8, 5, 162))
		r.boards("[]")
		r.send("consumed", at("dev", 8, 6, 163))
		r.boards("[dev]")
		r.send("consumed", at("dev", 8, 7, 164))
		r.want("epochs", r.epochs("dev"), "9 newer late 0; 8 first late 6 beside 9; ")
		r.want("said", strings.Count(log.String(), "two boards"), 1)
		r.reopen()
		r.boards("[dev]")
		r.send("consumed", at("dev", 8, 8, 165))
		r.want("said", strings.Count(log.String(), "two boards"), 1)
		r.clk.now = r.clk.now.Add(TwoBoardsFor + time.Second)
		r.boards("[]")
		r.want("and remembered", r.epochs("dev"), "9 newer late 0; 8 first late 7 beside 9; ")
	})
	t.Run("without", func(t *testing.T) {
		r := newRig(t)
		for i := range 50 {
			r.clk.now = noon.Add(time.Duration(i) * time.Hour)
			r.send("consumed", at("dev", 2, 1+i))
			r.send("consumed", at("dev", 1, 1+i, 60*60*i)) // the other one has a clock, which says nothing beside none
			if i == 10 {
				r.reopen()
			}
		}
		r.boards("[dev]")
	})
	t.Run("in other sources' epochs nothing is seen", func(t *testing.T) {
		r := newRig(t)
		r.clk.now = noon.Add(10 * time.Minute)
		for i := range 9 {
			r.send("consumed", at("dev", 8, 1+i, 400+i))
			r.send("consumed", at("dev2", 9, 1+i, 10+i))
		}
		r.boards("[]")
	})
}
