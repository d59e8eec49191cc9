// Says what ANTLR's grammar of Oracle SQL and PL/SQL has against each file: a line each,
// FILE:LINE:COLUMN what. Nothing, and exit code 0, where all is well.
import { readFileSync } from "node:fs";
import antlr4 from "antlr4";
import { PlSqlLexer, PlSqlParser } from "@griffithswaite/ts-plsql-parser";

let complaints = 0;
for (const file of process.argv.slice(2)) {
    const listener = {
        syntaxError(_recognizer, _symbol, line, column, message) {
            complaints += 1;
            console.log(`${file}:${line}:${column} ${message.slice(0, 200)}`);
        },
        reportAmbiguity() {},
        reportAttemptingFullContext() {},
        reportContextSensitivity() {},
    };
    const lexer = new PlSqlLexer(new antlr4.CharStream(readFileSync(file, "utf8")));
    const parser = new PlSqlParser(new antlr4.CommonTokenStream(lexer));
    for (const part of [lexer, parser]) {
        part.removeErrorListeners();
        part.addErrorListener(listener);
    }
    parser.sql_script();
}
process.exit(complaints === 0 ? 0 : 1);
