// Package sql contains the statements that pgdispatch executes, one per file, and the files of the schema: see
// schema.go.
//
// The first line of a statement's file names the item transitions that it makes, or says that it reads. The lifecycle
// diagram is generated from these lines, and a test runs each statement against every status.
package sql

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed *.sql
var verbs embed.FS

// The statements. The comments in each file describe its parameters in order.
var (
	Adopt               = read("adopt")
	CallbackKey         = read("callback_key")
	Cancel              = read("cancel")
	Claim               = read("claim")
	ClaimHead           = read("claim_head")
	CloseDone           = read("close_done")
	CloseTurn           = read("close_turn")
	Dispatched          = read("dispatched")
	Fail                = read("fail")
	Finish              = read("finish")
	FinishAll           = read("finish_all")
	GateCall            = read("gate_call")
	GateDuty            = read("gate_duty")
	GateLeave           = read("gate_leave")
	GateOpen            = read("gate_open")
	GateShut            = read("gate_shut")
	GiveUpWatches       = read("give_up_watches")
	Heartbeat           = read("heartbeat")
	Load                = read("load")
	Look                = read("look")
	NotifyHolder        = read("notify_holder")
	OpenAmong           = read("open_among")
	Park                = read("park")
	Ping                = read("ping")
	QueueDepth          = read("queue_depth")
	Release             = read("release")
	ReleaseOwned        = read("release_owned")
	Replicas            = read("replicas")
	ReplicaAlive        = read("replica_alive")
	ReplicaGone         = read("replica_gone")
	Retry               = read("retry")
	SettingsGet         = read("settings_get")
	SettingsSet         = read("settings_set")
	Silent              = read("silent")
	StallPick           = read("stall_pick")
	StallRecord         = read("stall_record")
	StallTurn           = read("stall_turn")
	StopDone            = read("stop_done")
	StopTake            = read("stop_take")
	SwapWatches         = read("swap_watches")
	Sweep               = read("sweep")
	Unlocked            = read("unlocked")
	WorkspaceStatistics = read("workspace_statistics")
)

// Verbs returns the names of all statements, without the extension.
func Verbs() []string {
	files, err := fs.Glob(verbs, "*.sql")
	if err != nil {
		panic(err) // unreachable: the pattern is a constant
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(path.Base(file), ".sql")
	}
	return files
}

// Text returns the statement with that name. It panics if there is none.
func Text(verb string) string { return read(verb) }

func read(verb string) string {
	text, err := verbs.ReadFile(verb + ".sql")
	if err != nil {
		panic(err) // a wrong name above fails any test
	}
	return string(text)
}
