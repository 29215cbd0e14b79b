//go:build gc && !purego

#include "textflag.h"

// func goroutineAddress() uintptr
TEXT ·goroutineAddress(SB), NOSPLIT, $0-8
	MOVD g, R0
	MOVD R0, ret+0(FP)
	RET
