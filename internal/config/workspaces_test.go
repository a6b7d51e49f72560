package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRolesInWorkspacesAreRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]WorkspaceRole{
		"":      nil,
		" , \n": nil,
		" acme ops = x=viewer@Acme Inc ,Grüße=operator@北京": {{Group: "acme ops = x", Workspace: "Acme Inc"},
			{Group: "Grüße", Workspace: "北京", Operator: true}},
		`"cn=ops,ou=x,dc=y=operator@Acme, Inc.", "say ""hi""=viewer@a@b=c"`: {{Group: "cn=ops,ou=x,dc=y",
			Workspace: "Acme, Inc.", Operator: true}, {Group: `say "hi"`, Workspace: "a@b=c"}},
		"team-{workspace}-dev=viewer@{workspace}\nteam-{workspace}=operator@{workspace}": {
			{Group: "team-{workspace}-dev", Workspace: "{workspace}"},
			{Group: "team-{workspace}", Workspace: "{workspace}", Operator: true}},
		"ops=operator@aaaaaaaa-0000-4000-8000-000000000001": {{Group: "ops", Operator: true,
			Workspace: "aaaaaaaa-0000-4000-8000-000000000001"}},
	} {
		c, err := readRunConfig(t, map[string]string{"PGDISPATCH_AUTH_WORKSPACES": text})
		require.NoError(t, err, text)
		require.Equal(t, want, c.SignIn.Workspaces, text)
	}
}

func TestMalformedRolesInWorkspacesAreRefusedWithTheRemedy(t *testing.T) {
	t.Parallel()
	for text, remedy := range map[string]string{
		"acme":                       `"acme" must be group=viewer@workspace or group=operator@workspace`,
		"ok=viewer@Acme,acme=viewer": `"acme=viewer" must be group=viewer@workspace`,
		"acme=admin@Acme":            `"acme=admin@Acme" must be group=viewer@workspace`,
		"acme=Viewer@Acme":           `must be group=viewer@workspace`,
		"=viewer@Acme":               `must be group=viewer@workspace`,
		"acme=viewer@ ":              `must be group=viewer@workspace`,
		"a=viewer@b=operator@c":      `must be group=viewer@workspace`,
		"cn=a,ou=b=viewer@Acme":      `or group=operator@workspace; put an entry with a comma in double quotes`,
		"team-{workspace}=viewer@A":  "must have {workspace} once in the group and once in the workspace, or in neither",
		"team=viewer@{workspace}":    "must have {workspace} once",
		"{workspace}{workspace}=viewer@{workspace}{workspace}": "must have {workspace} once",
		`"a=viewer@b`:    "a double quote must begin and end an entry",
		`a"=viewer@b`:    "a double quote must begin and end an entry",
		"a\xff=viewer@b": "it must be UTF-8 text",
	} {
		_, err := readRunConfig(t, map[string]string{"PGDISPATCH_AUTH_WORKSPACES": text})
		require.ErrorContains(t, err, "PGDISPATCH_AUTH_WORKSPACES is ", text)
		require.ErrorContains(t, err, remedy, text)
	}
}

func TestRolesInWorkspacesWithoutEffectAreRefused(t *testing.T) {
	t.Parallel()
	roles := func(text string) []WorkspaceRole {
		var all []WorkspaceRole
		require.NoError(t, parseWorkspaceRoles(text, &all))
		return all
	}
	s := SignIn{Workspaces: roles("acme=viewer@Acme")}
	require.ErrorContains(t, Config{SignIn: s}.checkSignIn(), "PGDISPATCH_AUTH_WORKSPACES has no effect: set")
	s.Header, s.Operators, s.Viewers = "X-User", []string{"ops"}, []string{"staff"}
	require.Empty(t, s.checkWorkspaces())
	for text, wrong := range map[string]string{"ops=viewer@A": "PGDISPATCH_AUTH_OPERATORS",
		"ops=operator@A": "PGDISPATCH_AUTH_OPERATORS", "staff=viewer@A": "PGDISPATCH_AUTH_VIEWERS", "staff=operator@A": ""} {
		s.Workspaces = roles(text)
		faults := s.checkWorkspaces()
		if wrong == "" {
			require.Empty(t, faults, "a viewer of all may be an operator of one")
			continue
		}
		require.Len(t, faults, 1)
		require.ErrorContains(t, faults[0], "remove it there, or from "+wrong)
	}
}
