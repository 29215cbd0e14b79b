package duration

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	decimal  = regexp.MustCompile(`^\s*(\d*[.,]\d+)\s*(\pL+)\s*$`)
	weeks    = regexp.MustCompile(`^\s*(\d*[.,]?\d+)\s*(?:w|wk|wks|week|weeks|W)\s*$`)
	iso      = regexp.MustCompile(`^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$`)
	isoUnits = []time.Duration{7 * day, day, time.Hour, time.Minute, time.Second}
)

// instead returns what a text means in a grammar that others use: decimals, weeks, or ISO 8601. It is empty for any
// other text, and for an amount that is not a whole number of milliseconds.
func instead(text string) string {
	if m := decimal.FindStringSubmatch(text); m != nil {
		if unit, ok := units[m[2]]; ok {
			return times(m[1], unit)
		}
	}
	if m := weeks.FindStringSubmatch(text); m != nil {
		return times(m[1], 7*day)
	}
	m := iso.FindStringSubmatch(strings.ToUpper(strings.TrimSpace(text)))
	if m == nil {
		return ""
	}
	sum := 0.0
	for i, digits := range m[1:] {
		n, _ := strconv.ParseFloat("0"+digits, 64) // digits alone
		sum += n * float64(isoUnits[i])
	}
	return formatted(sum)
}

// times returns a number of units.
func times(number string, unit time.Duration) string {
	n, err := strconv.ParseFloat(strings.ReplaceAll(number, ",", "."), 64)
	if err != nil {
		return ""
	}
	return formatted(n * float64(unit))
}

func formatted(ns float64) string {
	ms := ns / float64(time.Millisecond)
	whole := math.Round(ms)
	if whole <= 0 || ms > math.MaxInt64/1e7 || math.Abs(ms-whole) > 1e-6 {
		return ""
	}
	return Format(time.Duration(whole) * time.Millisecond)
}
