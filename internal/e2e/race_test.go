//go:build race

package e2e

// The program is built as the tests are: with the race detector, which ends it
// with exit code 66.
func init() { buildFlags = append(buildFlags, "-race") }
