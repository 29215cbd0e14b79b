// Package screen is the terminal as the command line uses it: styled lines measured in cells, text made safe to show,
// durations for people, and a painter that redraws a block of lines in place.
package screen
