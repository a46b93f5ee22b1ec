package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

// Run tells version, Go version and platform, and the revision it was built from.
func (versionCmd) Run(s *terminal) error {
	b := readBuild()
	_, err := fmt.Fprintf(s.stdout, "oxyd %s\n%s %s/%s\nrevision %s\n", b.version, runtime.Version(), runtime.GOOS, runtime.GOARCH, b.revision)
	return err
}

// build is what the Go tool has noted in the binary.
type build struct {
	version, revision string
}

func readBuild() build {
	b := build{version: "(devel)", revision: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.version = info.Main.Version
	}
	modified := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.revision = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	if modified {
		b.revision += " (modified)"
	}
	return b
}
