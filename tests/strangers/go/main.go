// Logs on by go-ora, selects, and executes the block. Arguments: port, folder.
package main

import (
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	go_ora "github.com/sijms/go-ora/v2"
)

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func main() {
	port, folder := os.Args[1], os.Args[2]
	db := must(sql.Open("oracle", "oracle://petal:s3cret@127.0.0.1:"+port+"/standin"))
	db.SetMaxOpenConns(1)
	rows := must(db.Query("SELECT name, value FROM sys.v_$parameter ORDER BY name"))
	for rows.Next() {
		var name, value string
		must(0, rows.Scan(&name, &value))
		fmt.Println(name + "=" + value)
	}
	must(0, rows.Err())
	must(0, rows.Close())
	number := regexp.MustCompile(`^\d{1,12}$`)
	var binds []any
	for _, line := range strings.Split(strings.TrimSpace(string(must(os.ReadFile(folder+"/binds")))), "\n") {
		name, value, _ := strings.Cut(line, "=")
		if number.MatchString(value) {
			binds = append(binds, sql.Named(name, must(strconv.ParseInt(value, 10, 64))))
		} else {
			binds = append(binds, sql.Named(name, value))
		}
	}
	var ended, errors string
	binds = append(binds,
		sql.Named("ended", go_ora.Out{Dest: &ended, Size: 4000}),
		sql.Named("errors", go_ora.Out{Dest: &errors, Size: 4000}))
	block := string(must(os.ReadFile(folder + "/block.sql")))
	for call := 0; call < 2; call++ {
		must(db.Exec(block, binds...))
		fmt.Println("ended", ended, "errors", errors)
	}
	must(0, db.Close())
}
