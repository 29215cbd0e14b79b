//go:build gc && !purego

#include "textflag.h"

// func goroutineAddress() uintptr
TEXT ·goroutineAddress(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET
