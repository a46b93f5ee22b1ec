//go:build !race

package powercut

// slowdown divides how much is tried.
const slowdown = 1
