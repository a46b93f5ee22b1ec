package event

import "time"

// parseInstant reads an RFC 3339 date-time with at most nine digits of fraction
// and gives it in UTC. It is stricter than time.Parse, which takes a comma, a
// one-digit hour and any number of digits: T and Z are upper case, there is no
// second 60, and the instant lies in the years 1 to 9999 of UTC.
func parseInstant(s []byte) (time.Time, bool) {
	const date = len("2006-01-02T15:04:05")
	if len(s) < date+1 || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return time.Time{}, false
	}
	century, ok0 := twoDigits(s[0:], 99)
	years, ok1 := twoDigits(s[2:], 99)
	month, ok2 := twoDigits(s[5:], 12)
	day, ok3 := twoDigits(s[8:], 31)
	hour, ok4 := twoDigits(s[11:], 23)
	minute, ok5 := twoDigits(s[14:], 59)
	second, ok6 := twoDigits(s[17:], 59)
	if !(ok0 && ok1 && ok2 && ok3 && ok4 && ok5 && ok6) {
		return time.Time{}, false
	}
	nanosecond, rest, ok := parseFraction(s[date:])
	if !ok {
		return time.Time{}, false
	}
	offset, ok := parseOffset(rest)
	if !ok {
		return time.Time{}, false
	}
	local := time.Date(century*100+years, time.Month(month), day, hour, minute, second, nanosecond, time.UTC)
	if local.Month() != time.Month(month) {
		return time.Time{}, false // such as 30 February, which Date moves into March
	}
	t := local.Add(-offset)
	return t, t.Year() >= 1 && t.Year() <= 9999
}

// twoDigits reads a number of two digits at the start of s.
func twoDigits(s []byte, most int) (n int, ok bool) {
	if !isDigit(s[0]) || !isDigit(s[1]) {
		return 0, false
	}
	n = int(s[0]-'0')*10 + int(s[1]-'0')
	return n, n <= most
}

// parseFraction reads ".123" at the start of s, if there is one.
func parseFraction(s []byte) (nanosecond int, rest []byte, ok bool) {
	if s[0] != '.' {
		return 0, s, true
	}
	i, unit := 1, int(time.Second)
	for ; i < len(s) && isDigit(s[i]); i++ {
		unit /= 10
		nanosecond += int(s[i]-'0') * unit
	}
	return nanosecond, s[i:], 2 <= i && i <= 10
}

// parseOffset reads "Z" or "+hh:mm", which must be the whole of s.
func parseOffset(s []byte) (time.Duration, bool) {
	if len(s) == 1 && s[0] == 'Z' {
		return 0, true
	}
	if len(s) != len("+hh:mm") || s[3] != ':' || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	hours, okHours := twoDigits(s[1:], 23)
	minutes, okMinutes := twoDigits(s[4:], 59)
	offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if s[0] == '-' {
		offset = -offset
	}
	return offset, okHours && okMinutes
}
