package mutants

// i2cBuses are changes of the bus on i2c-dev, and of what a bus's loop does when a
// chip on it hangs.
var i2cBuses = []mutant{
	{
		name: "the errno of a transfer is hidden",
		file: "sensors/i2cdev.go",
		old:  "\tcase err != nil:\n\t\treturn fmt.Errorf(\"%s address %#x: %w\", d.node, addr, err)\n",
		new:  "\tcase err != nil:\n\t\treturn fmt.Errorf(\"%s address %#x: %v\", d.node, addr, err)\n",
		pkg:  "./sensors", run: "KeepsTheErrno",
	},
	{
		name: "a short transfer is ignored",
		file: "sensors/i2cdev.go",
		old:  "\tcase done != n:\n",
		new:  "\tcase false && done != n:\n",
		pkg:  "./sensors", run: "ShortTransfer",
	},
	{
		name: "a transfer that failed leaves its bytes",
		file: "sensors/i2cdev.go",
		old:  "\tdone, err := d.transfer(n)\n",
		new:  "\tdone, err := d.transfer(n)\n\tcopy(r, d.buffer[len(w):])\n",
		pkg:  "./sensors", run: "KeepsTheErrno",
	},
	{
		name: "a signal ends a transfer",
		file: "sensors/i2cdev.go",
		old:  "\t\tcase unix.EINTR:\n\t\t\terr = errno\n",
		new:  "\t\tcase unix.EINTR:\n\t\t\treturn n, errno\n",
		pkg:  "./sensors", run: "FC70|Interrupted",
	},
	{
		name: "the adapter keeps its own timeout",
		file: "sensors/i2cdev.go",
		old:  "uintptr(I2CTimeout/i2cTimeoutUnit)",
		new:  "uintptr(I2CTimeout/time.Millisecond)",
		pkg:  "./sensors", run: "Prepares",
	},
	{
		name: "a handle leaks where the node is no bus",
		file: "sensors/i2cdev.go",
		old:  "\t\treturn nil, errors.Join(err, unix.Close(fd))\n\t}\n\treturn d, nil",
		new:  "\t\treturn nil, err\n\t}\n\treturn d, nil",
		pkg:  "./sensors", run: "LeaksNothing",
	},
	{
		name: "a chip that is busy for a moment is a fault",
		file: "sensors/latebus.go",
		old:  "\tnackRetries = 2\n",
		new:  "\tnackRetries = 0\n",
		pkg:  "./sensors", run: "AsksAgain",
	},
	{
		name: "a device that is gone stays open",
		file: "sensors/latebus.go",
		old:  "\tcase gone(err):\n",
		new:  "\tcase false && gone(err):\n",
		pkg:  "./sensors", run: "TestLateBus$|FC70",
	},
	{
		name: "a bus that stays away is opened at every transfer",
		file: "sensors/latebus.go",
		old:  "\tif b.lost != nil && b.now().Before(b.notBefore) {\n",
		new:  "\tif false && b.lost != nil && b.now().Before(b.notBefore) {\n",
		pkg:  "./sensors", run: "BacksOff",
	},
	{
		name: "a chip that hangs is not left alone",
		file: "sensors/loop.go",
		old:  "\tif !failed || held < holdLimit {\n",
		new:  "\tif true || !failed || held < holdLimit {\n",
		pkg:  "./sensors", run: "HangingProbe",
	},
	{
		name: "a chip that hangs is left alone after three only",
		file: "sensors/loop.go",
		old:  "\tif l.holds > 0 {\n",
		new:  "\tif l.holds > 2 {\n",
		pkg:  "./sensors", run: "HangingProbe",
	},
	{
		name: "the channels of a chip that hangs do not know of each other",
		file: "sensors/latebus.go",
		old:  "\tif h := b.holds[addr]; b.now().Before(h.until) {\n",
		new:  "\tif h := b.holds[addr]; false && b.now().Before(h.until) {\n",
		pkg:  "./sensors", run: "HangingChip|LeavesAlone",
	},
	{
		name: "a read's transfers go on after its time",
		file: "sensors/loop.go",
		old:  "\t\tif b.wire != nil {\n",
		new:  "\t\tif false && b.wire != nil {\n",
		pkg:  "./sensors", run: "SlowTransfers",
	},
}
