//go:build !small

package part

import (
	"github.com/pawl-dev/pawl/internal/daemon/database"
	"github.com/pawl-dev/pawl/internal/journal/postgres"
)

func init() {
	database.Register(database.Driver{
		Open: postgres.OpenSeen, OpenReadOnly: postgres.OpenReadOnlySeen, Key: postgres.Key,
	})
}
