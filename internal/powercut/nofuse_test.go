//go:build 386 || arm

package powercut

import "errors"

// go-fuse v2.12.1 does not compile where an int has 32 bits (its package splice).
func mountDisk(string, *disk) (mounted, error) {
	return nil, errors.New("the FUSE library does not build for 32 bits")
}
