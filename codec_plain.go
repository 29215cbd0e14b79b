package pawl

import "strconv"

// writePlain writes a short value as JSON without encoding/json, which does the same in several times as long. It
// reports whether it did.
func writePlain(v any) ([]byte, bool) {
	switch v := v.(type) {
	case string:
		return writeText(v)
	case int:
		return strconv.AppendInt(nil, int64(v), 10), true
	case int64:
		return strconv.AppendInt(nil, v, 10), true
	case bool:
		return strconv.AppendBool(nil, v), true
	default:
		return nil, false
	}
}

// readPlain reads such a value into what v points to. It reports whether it did: anything else is for encoding/json,
// which also knows what is wrong with it.
func readPlain(b []byte, v any) (ok bool) {
	switch to := v.(type) {
	case *string:
		var text string
		if text, ok = plainText(b); ok {
			*to = text
		}
	case *int:
		var n int64
		if n, ok = plainInt(b); ok && int64(int(n)) == n {
			*to = int(n)
			return true
		}
		return false
	case *int64:
		var n int64
		if n, ok = plainInt(b); ok {
			*to = n
		}
	case *bool:
		if ok = string(b) == "true" || string(b) == "false"; ok {
			*to = b[0] == 't'
		}
	default:
	}
	return ok
}

// plainInt reads a JSON number without fraction and exponent that certainly fits.
func plainInt(b []byte) (n int64, ok bool) {
	const most = len("999999999999999999") // digits of which every number fits
	digits := b
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > most || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if len(digits) < len(b) {
		n = -n
	}
	return n, true
}
