package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheQuickStartShowsTheseWorkers(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../quickstart.md")
	require.NoError(t, err)
	for file, part := range map[string][2]string{
		"main.go":   {"go", "func SendMail"},
		"worker.py": {"python", "import asyncio"},
	} {
		program, err := os.ReadFile(file)
		require.NoError(t, err)
		_, shown, found := strings.Cut(string(program), part[1])
		require.True(t, found, file)
		require.Contains(t, string(page), "```"+part[0]+"\n"+part[1]+shown+"```\n", file)
	}
}
