package main

import ("context";"errors")

func openCairn(context.Context, string) (system, error) { return nil, errors.New("seam") }
