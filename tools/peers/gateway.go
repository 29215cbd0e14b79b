package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// gatewayProgram is Pawl's command as it is built for the peers that are workers of Temporal's SDK on Pawl.
const gatewayProgram = "pawl-server"

var gateway = sdkServer{gatewayProgram, "default", func(port int) []string {
	return []string{"--temporal", "127.0.0.1:" + strconv.Itoa(port), "--listen", "127.0.0.1:" + strconv.Itoa(port+1)}
}}

// buildGateway builds the command.
func buildGateway(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join("..", ".."), "-trimpath", "-o",
		filepath.Join("tools", "peers", gatewayProgram), "./cmd/pawl")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("the server cannot be built: %w: %s", err, bytes.TrimSpace(said))
	}
	return nil
}

func openGatewayFile(ctx context.Context, dir, _ string) (engine, error) {
	return openTemporal(ctx, dir, gateway, "dev", "--database", "sqlite:"+filepath.Join(dir, "pawl.db"))
}

func openGatewayServer(ctx context.Context, dir, postgres string) (engine, error) {
	database, err := inSchema(postgres)
	if err != nil {
		return nil, err
	}
	return openTemporal(ctx, dir, gateway, "dev", "--database", database)
}
