package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencegate/fencegate/internal/identity"
)

// Where commands that talk to a gateway find their credential. It never is an
// argument, which every user of the machine could read.
const (
	envAPIKey     = "FENCE_API_KEY"
	envAPIKeyFile = "FENCE_API_KEY_FILE"
)

const credentialHelp = "Sends the API key or token in " + envAPIKey + ", or in the file that " + envAPIKeyFile + " names."

// credential returns what the environment has, "" if it has none. A file is read
// anew each time: it may have been replaced.
func credential(context.Context) (string, error) {
	key, file := os.Getenv(envAPIKey), os.Getenv(envAPIKeyFile)
	switch {
	case key != "" && file != "":
		return "", errors.New(envAPIKey + " stands beside " + envAPIKeyFile + "; keep one of them")
	case file == "":
		return key, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", envAPIKeyFile, err)
	}
	if key = strings.TrimSpace(string(text)); key == "" {
		return "", fmt.Errorf("%s: the file %s is empty", envAPIKeyFile, file)
	}
	return key, nil
}

// bearer is credential for the SDK; nil if there is none.
func bearer() func(context.Context) (string, error) {
	if os.Getenv(envAPIKey) == "" && os.Getenv(envAPIKeyFile) == "" {
		return nil
	}
	return credential
}

func newAuth() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "auth",
		Short: "Make credentials",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	key := &cobra.Command{
		Use:   "key",
		Short: "Make API keys",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	key.AddCommand(newAuthKeyNew())
	cmd.AddCommand(key)
	return cmd
}

func newAuthKeyNew() *cobra.Command {
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make an API key",
		Long: "Prints a new API key, alone on standard output, and on standard error what the\n" +
			"configuration keeps of it, to be put under api_keys of a principal:\n\n" +
			"  gateway auth key new --expires-in 2160h > worker.key\n\n" +
			"The key is shown this once: only its hash is kept. A gateway that runs takes the new\n" +
			"configuration at SIGHUP.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var expires time.Time
			if lasts < 0 {
				return errors.New("--expires-in is not negative")
			}
			if lasts > 0 {
				expires = time.Now().Add(lasts).UTC().Truncate(time.Second)
			}
			text, key := identity.NewKey(expires)
			fmt.Fprintf(cmd.ErrOrStderr(), "      - id: %q\n        sha256: %x\n", key.ID, key.SHA256)
			if lasts > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "        expires: %s\n", expires.Format(time.RFC3339))
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().DurationVar(&lasts, "expires-in", 0, "how `long` it may be used; 0: for ever")
	return cmd
}
