package workflows

import (
	"net/http"

	"github.com/pawl-dev/pawl/internal/api"
	"github.com/pawl-dev/pawl/internal/server/stevoraapi"
)

// Routes adds the APIs that other systems have for their runs, each route with the role that it asks for.
func Routes(
	handle func(role, pattern string, answer http.HandlerFunc), service api.Service, find stevoraapi.Find,
) {
	stevoraapi.Routes(handle, service, find)
}
