package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/core"
)

// Secrets begin with secretPrefix. Standard Webhooks wants keys of 24 to 64 bytes.
const (
	secretPrefix            = "whsec_"
	leastSecret, mostSecret = 24, 64
	newSecretBytes          = 32
)

// secret is a key that messages are signed with.
type secret struct {
	Text  string    `json:"text"`
	Until core.Time `json:"until,omitempty"` // not used from then on; 0: it is the newest one
}

// newSecret returns a random secret.
func newSecret() string {
	key := make([]byte, newSecretBytes)
	_, _ = rand.Read(key) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// keyOf returns the key of a secret.
func keyOf(text string) ([]byte, error) {
	encoded, found := strings.CutPrefix(text, secretPrefix)
	if !found {
		return nil, fmt.Errorf("a secret begins with %s; leave it out, and one is made", secretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("what follows %s is not base64; leave the secret out, and one is made", secretPrefix)
	}
	if len(key) < leastSecret || len(key) > mostSecret {
		return nil, fmt.Errorf("the key has %d bytes; it needs %d to %d", len(key), leastSecret, mostSecret)
	}
	return key, nil
}

// signature returns the header webhook-signature of a message: one signature for each secret that is in use.
func signature(secrets []secret, now core.Time, id string, payload []byte) string {
	var all []string
	for _, s := range secrets {
		key, err := keyOf(s.Text)
		if err != nil || s.Until != 0 && s.Until <= now {
			continue // stored secrets were checked before
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp(now) + "."))
		mac.Write(payload)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " ")
}

// stamp returns the header webhook-timestamp of an attempt.
func stamp(now core.Time) string { return strconv.FormatInt(now.Std().Unix(), 10) }
