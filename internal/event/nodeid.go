package event

import (
	"strconv"
	"strings"
)

// ParseNodeID reads an event_id of the form that NodeID makes for the source. ok
// is false for every other text, also for one that differs only in padding, so
// that ParseNodeID and NodeID are inverse to each other.
func ParseNodeID(source, id string) (tank string, d Dot, ok bool) {
	rest, found := strings.CutPrefix(id, source+"/")
	if !found || source == "" {
		return "", Dot{}, false
	}
	epoch, rest, found := strings.Cut(rest, "/")
	tank, seq, found2 := strings.Cut(rest, "/")
	if !found || !found2 || !ValidName(tank) || len(seq) < 12 {
		return "", Dot{}, false
	}
	var err1, err2 error
	d.Epoch, err1 = strconv.ParseUint(epoch, 10, 64)
	d.Seq, err2 = strconv.ParseUint(seq, 10, 64)
	if err1 != nil || err2 != nil || d.Epoch == 0 || d.Epoch > MaxEpoch || d.Seq == 0 || d.Seq > MaxSeq ||
		epoch[0] == '0' || len(seq) > 12 && seq[0] == '0' {
		return "", Dot{}, false
	}
	return tank, d, true
}
