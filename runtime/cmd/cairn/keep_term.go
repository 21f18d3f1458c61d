package main

import _ "golang.org/x/term"
