package config

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// workspacePlaceholder in a group and its workspace stands for the same text in both.
const workspacePlaceholder = "{workspace}"

// parseWorkspaceRoles reads entries such as group=viewer@workspace, separated by commas or lines as in a CSV file.
func parseWorkspaceRoles(text string, into *[]WorkspaceRole) error {
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		return errors.New("it must be UTF-8 text")
	}
	lines := csv.NewReader(strings.NewReader(text))
	lines.FieldsPerRecord, lines.TrimLeadingSpace = -1, true
	for {
		entries, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.New(`a double quote must begin and end an entry, such as "cn=ops,ou=groups=operator@Acme"; ` +
				"write it twice inside one")
		}
		for _, entry := range entries {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			role, err := parseWorkspaceRole(entry)
			if err != nil {
				return fmt.Errorf("%.80q %w", entry, err)
			}
			*into = append(*into, role)
		}
	}
}

func parseWorkspaceRole(entry string) (role WorkspaceRole, err error) {
	const viewer, operator = "=viewer@", "=operator@"
	separator := viewer
	if role.Operator = strings.Contains(entry, operator); role.Operator {
		separator = operator
	}
	group, workspace, _ := strings.Cut(entry, separator)
	role.Group, role.Workspace = strings.TrimSpace(group), strings.TrimSpace(workspace)
	in, out := strings.Count(role.Group, workspacePlaceholder), strings.Count(role.Workspace, workspacePlaceholder)
	switch {
	case strings.Count(entry, viewer)+strings.Count(entry, operator) != 1 || role.Group == "" || role.Workspace == "":
		return role, errors.New("must be group=viewer@workspace or group=operator@workspace; " +
			"put an entry with a comma in double quotes")
	case in != out || in > 1:
		return role, errors.New("must have {workspace} once in the group and once in the workspace, or in neither")
	}
	return role, nil
}

// checkWorkspaces refuses roles that have no effect.
func (s SignIn) checkWorkspaces() (faults []error) {
	if len(s.Workspaces) > 0 && s.Header == "" && s.Issuer == "" {
		faults = append(faults, errors.New("PGDISPATCH_AUTH_WORKSPACES has no effect: set PGDISPATCH_AUTH_HEADER or "+
			"PGDISPATCH_OIDC_ISSUER, so that users sign in"))
	}
	for _, w := range s.Workspaces {
		everywhere := ""
		switch {
		case slices.Contains(s.Operators, w.Group):
			everywhere = "PGDISPATCH_AUTH_OPERATORS"
		case !w.Operator && slices.Contains(s.Viewers, w.Group):
			everywhere = "PGDISPATCH_AUTH_VIEWERS"
		default:
			continue
		}
		faults = append(faults, fmt.Errorf("PGDISPATCH_AUTH_WORKSPACES gives %.80q a role in %.80q that it has in all "+
			"workspaces: remove it there, or from %s", w.Group, w.Workspace, everywhere))
	}
	return faults
}
