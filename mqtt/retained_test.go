package mqtt

import "testing"

func mustSet(t *testing.T, table *retainedTable, topic, payload string) {
	t.Helper()
	if err := table.set(topic, []byte(payload)); err != nil {
		t.Fatal(err)
	}
}

func mustTake(t *testing.T, table *retainedTable, connection uint64, want string) retainedMessage {
	t.Helper()
	m, ok := table.take(connection)
	if !ok || string(m.payload) != want {
		t.Fatalf("take: %q, %v, want %q", m.payload, ok, want)
	}
	return m
}

// A PUBACK counts for the version that was sent, on the connection that sent it.
func TestRetainedTableCountsPUBACKsByVersion(t *testing.T) {
	t.Parallel()
	table := newRetainedTable()
	one := table.renew("")
	mustSet(t, table, "x", "old")
	old := mustTake(t, table, one, "old")
	mustSet(t, table, "x", "new")
	table.acked(one, old)
	if _, undelivered := table.counts(); undelivered != 1 {
		t.Error("the PUBACK of an older version counted for the newer one")
	}
	table.acked(one, mustTake(t, table, one, "new"))
	if _, undelivered := table.counts(); undelivered != 0 {
		t.Error("the PUBACK did not count")
	}

	mustSet(t, table, "x", "")
	cleared := mustTake(t, table, one, "")
	mustSet(t, table, "x", "again")
	table.acked(one, cleared)
	if kept, _ := table.counts(); kept != 1 {
		t.Error("the PUBACK of a clearing removed a newer value")
	}
	again := mustTake(t, table, one, "again")
	two := table.renew("")
	table.acked(one, again)
	if _, undelivered := table.counts(); undelivered != 1 {
		t.Error("the PUBACK of an earlier connection counted")
	}
	if m, ok := table.take(one); ok {
		t.Errorf("the sender of an earlier connection took %q away from the present one", m.payload)
	}
	mustTake(t, table, two, "again")
}

func TestRetainedTableKeepsItsOwnCopy(t *testing.T) {
	t.Parallel()
	table := newRetainedTable()
	payload := []byte("727")
	if err := table.set("x", payload); err != nil {
		t.Fatal(err)
	}
	payload[0] = '9'
	mustTake(t, table, table.renew(""), "727")
}
