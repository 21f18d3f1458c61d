package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/runtime/client"
)

// readBy is how long the browser has to read the file with the address.
const readBy = 5 * time.Second

func (c *cli) dashboardCommand() *cobra.Command {
	var show bool
	cmd := &cobra.Command{
		Use:               "dashboard [TYPE/KEY...]",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			page := ""
			if len(args) > 0 {
				a, err := parseAddress(args[0])
				if err != nil {
					return usageError{err}
				}
				page = "/actor/" + formatAddress(a.Type, a.Key) + "/-/"
			}
			n, err := c.connect(client.Options{}) // it reads --url
			if err != nil {
				return err
			}
			n.Close()
			address := strings.TrimSuffix(c.url, "/") + "/dashboard/"
			token := c.nodeToken()
			switch {
			case token != "":
				address += "#token=" + url.QueryEscape(token)
				if page != "" {
					address += "&to=" + url.QueryEscape(page)
				}
			case page != "":
				address += "#" + page
			}
			if c.json {
				return c.printJSON(map[string]string{"url": address})
			}
			browser := c.browser()
			if show || browser == nil {
				_, err := fmt.Fprintln(c.stdout, address)
				return err
			}
			return c.browse(cmd.Context(), browser, address, token != "")
		},
	}
	cmd.Flags().BoolVar(&show, "print", false, "print the address, with the token, instead of opening it")
	return cmd
}

// browser returns the command that opens an address in a browser, or nil if there is none.
func (c *cli) browser() []string {
	command := strings.Fields(c.getenv("BROWSER"))
	if len(command) == 0 {
		switch {
		case goruntime.GOOS == "darwin":
			command = []string{"open"}
		case goruntime.GOOS == "windows":
			command = []string{"rundll32", "url.dll,FileProtocolHandler"}
		case c.getenv("DISPLAY") != "" || c.getenv("WAYLAND_DISPLAY") != "":
			command = []string{"xdg-open"}
		default:
			return nil
		}
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil
	}
	return command
}

// browse opens an address in a browser. One with a secret goes through a file that only its owner
// may read: all users of a machine see the arguments of a command.
func (c *cli) browse(ctx context.Context, browser []string, address string, secret bool) (err error) {
	what := address
	if secret {
		f, ferr := os.CreateTemp("", "cairn-dashboard-*.html") // of mode 0600
		if ferr != nil {
			return ferr
		}
		defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
		_, err = fmt.Fprintf(f,
			"<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url=%s\">\n", html.EscapeString(address))
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		what = f.Name()
	}
	cmd := exec.CommandContext(ctx, browser[0], append(browser[1:], what)...)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s did not open the dashboard: %w; --print shows its address", browser[0], err)
	}
	if secret {
		c.note("the browser has %s to open the page", readBy)
		select {
		case <-time.After(readBy):
		case <-ctx.Done():
		}
	}
	return nil
}
