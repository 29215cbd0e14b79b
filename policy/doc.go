// Package policy holds the values that say how long work may take and how often it is tried, and the one pure
// function, [Judge], that decides what follows when an attempt ends. Nothing in it reads a clock, draws a random
// number or keeps state: instants and random numbers are arguments.
package policy
