package checklist

import (
	"fmt"
	"slices"
	"strings"

	"oxyd/ledger"
)

// natural: snapshots are set to, and each tank that can be measured is.
func (f *findings) natural() Answer {
	a := answer(Natural)
	if f.tried(a) {
		t := &f.trial
		story := fmt.Sprintf("trial: a snapshot of %s, an older one of %s after it, the first again: %s, balance %s",
			grams(left), grams(full), strings.Join(t.snapshots, ", "), amount(t.measured))
		a.expects(t.measured != nil && *t.measured == ledger.SumOf(left),
			story, story+" instead of "+grams(left))
	}
	feeds := f.feeds()
	for _, feed := range feeds {
		f.feed(a, &feed)
	}
	if len(feeds) == 0 {
		a.shows("no tank is named in the config, and none was heard of")
	}
	return *a
}

// feed is what is known of one tank's sources.
type feed struct {
	ledger.Feed
	sensor bool // this node measures it
	known  bool // the account was asked
}

// feeds joins what the config says and what the account has.
func (f *findings) feeds() []feed {
	var list []feed
	at := func(id string) *feed {
		if i := slices.IndexFunc(list, func(x feed) bool { return x.Tank == id }); i >= 0 {
			return &list[i]
		}
		list = append(list, feed{Feed: ledger.Feed{Tank: id}})
		return &list[len(list)-1]
	}
	for i := range f.cfg.Tanks {
		at(f.cfg.Tanks[i].ID).Opening = f.cfg.Tanks[i].Initial != nil
	}
	for i := range f.cfg.Sensors {
		if s := &f.cfg.Sensors[i]; !s.Auxiliary() && !s.Flow() { // a meter's tank may well rest on deltas
			at(s.Tank).sensor = true
		}
	}
	if f.account != nil && f.account.Fault == "" {
		for _, t := range f.account.Tanks {
			x := at(t.Tank)
			x.Feed, x.known = t, true
		}
	} else {
		for _, t := range f.tanks {
			x := at(t.Tank)
			x.Baseline, x.known = t.Baseline != nil, true
		}
	}
	return list
}

func (f *findings) feed(a *Answer, x *feed) {
	switch {
	case x.sensor && x.known && !x.Baseline && x.Deltas > 0:
		a.fails("tank %s: this node has a sensor on it, and yet its balance rests on %d deltas and no snapshot: look at the sensor", x.Tank, x.Deltas)
	case x.sensor && x.Baseline:
		a.shows("tank %s: measured by this node, its balance rests on a snapshot", x.Tank)
	case x.sensor:
		a.shows("tank %s: measured by this node every %s", x.Tank, f.interval(x.Tank))
	case x.Baseline:
		a.shows("tank %s: its balance rests on a snapshot", x.Tank)
	case f.cfg.Ledger == nil:
		a.shows("tank %s: not measured by this node", x.Tank)
	case x.Opening:
		a.warns("tank %s: deltas alone so far, from its opening amount on: each must be recognised, and no measurement repairs an error", x.Tank)
	default:
		a.warns("tank %s: neither a snapshot nor an opening amount so far: its balance is not known", x.Tank)
	}
}

func (f *findings) interval(tank string) string {
	for i := range f.cfg.Sensors {
		if f.cfg.Sensors[i].Tank == tank {
			return f.cfg.Sensors[i].Interval.String()
		}
	}
	return "-"
}
