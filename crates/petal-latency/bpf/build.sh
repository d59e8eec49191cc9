#!/bin/sh
# Compiles each program to an object: build.sh [FOLDER]. The objects in the tree are from clang 14.
set -e
cd "$(dirname "$0")"
for name in requests calls writes threads; do
	hash=$(cat common.bpf.h $name.bpf.c | sha256sum | cut -d ' ' -f 1)
	out=${1:-.}/$name.bpf.o
	${CLANG:-clang-14} -target bpf -mcpu=v3 -O2 -g -fdebug-compilation-dir=. -Wall -Wno-unused -Werror \
		-DSOURCE="\"$hash\"" -c $name.bpf.c -o "$out"
	${LLVM_STRIP:-llvm-strip-14} -g "$out"
done
