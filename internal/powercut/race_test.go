//go:build race

package powercut

// slowdown: the race detector has the stores' own tests to look at; here it mostly
// costs time.
const slowdown = 4
