package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

func TestTheQuickStartShowsTheseWorkers(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../../quickstart.md")).In(t)
	for file, part := range map[string][2]string{
		"main.go":   {"go", "func SendMail"},
		"worker.py": {"python", "import asyncio"},
	} {
		program := must.Get(os.ReadFile(file)).In(t)
		_, shown, found := strings.Cut(string(program), part[1])
		require.True(t, found, file)
		require.Contains(t, string(page), "```"+part[0]+"\n"+part[1]+shown+"```\n", file)
	}
}
