package sensors

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// commissioningPath is the page that somebody with a screwdriver has beside the
// board.
const commissioningPath = "../docs/commissioning.md"

// tableRow is the first cell of a row, where it is a word of ours.
var tableRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (.*) \\|$")

// firstCells gives the words in the first column of the table in a section of a page,
// in the order in which they stand.
func firstCells(t *testing.T, path, heading string) (words []string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", path, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range tableRow.FindAllStringSubmatch(section, -1) {
		for _, cell := range strings.Split(m[2], "|") {
			if strings.TrimSpace(cell) == "" && heading == "Reasons" {
				t.Errorf("%s: the row of %q has an empty cell", path, m[1])
			}
		}
		words = append(words, m[1])
	}
	return words
}

// TestCommissioningListsEveryReason: whoever sees a word in the node's status finds it
// on the page, with what to do; and the page has no word that is never said.
func TestCommissioningListsEveryReason(t *testing.T) {
	var want []string
	for _, r := range Reasons() {
		want = append(want, string(r))
	}
	got := firstCells(t, commissioningPath, "Reasons")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons on the page (-Reasons() +page):\n%s", diff)
	}
}

func TestCommissioningListsEveryState(t *testing.T) {
	want := []string{string(StateOK), string(StateSuspect), string(StateFault), string(StateStale), string(StateMissing)}
	if diff := cmp.Diff(want, firstCells(t, commissioningPath, "States")); diff != "" {
		t.Errorf("states on the page (-states +page):\n%s", diff)
	}
}
