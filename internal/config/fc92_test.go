package config

import "testing"

// FC-92: on 32-bit boards a store is bounded below what the address space holds,
// whatever the config says.
func TestFC92StoreBoundsOn32Bits(t *testing.T) {
	if got, want := storeBytesOn(32, 64<<30), Size(512<<20); got != want {
		t.Errorf("on 32 bits: got %v, want %v", got, want)
	}
	if got, want := storeBytesOn(64, 64<<30), Size(64<<30); got != want {
		t.Errorf("on 64 bits: got %v, want %v", got, want)
	}
	if most := storeBytes(64 << 30); DefaultLedgerMaxBytes() > most {
		t.Errorf("the default %v is more than the bound %v", DefaultLedgerMaxBytes(), most)
	}
}

// A window longer than the default history takes the history with it.
func TestHistoryFollowsTheWindow(t *testing.T) {
	if c := mustParse(t, "ledger: {dedup_window: 1000h}"); c.Ledger.History != c.Ledger.DedupWindow {
		t.Errorf("history is %v, want %v", c.Ledger.History, c.Ledger.DedupWindow)
	}
}
