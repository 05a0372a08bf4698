// Package threadclock tells how much processor time a thread has used.
package threadclock
