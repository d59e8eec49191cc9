// Logs on by ojdbc11, selects, and executes the block. Arguments: port, folder.
import java.nio.file.*;
import java.sql.*;
import java.util.*;
import java.util.regex.*;

public class Client {
    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:oracle:thin:@127.0.0.1:" + arguments[0] + "/standin";
        try (Connection connection = DriverManager.getConnection(url, "petal", "s3cret")) {
            try (Statement select = connection.createStatement();
                 ResultSet rows = select.executeQuery("SELECT name, value FROM sys.v_$parameter ORDER BY name")) {
                while (rows.next()) System.out.println(rows.getString(1) + "=" + rows.getString(2));
            }
            Map<String, String> values = new HashMap<>();
            for (String line : Files.readAllLines(Path.of(arguments[1], "binds"))) {
                values.put(line.substring(0, line.indexOf('=')), line.substring(line.indexOf('=') + 1));
            }
            // JDBC's own escapes have a question mark in place of a name.
            String block = Files.readString(Path.of(arguments[1], "block.sql"));
            List<String> names = new ArrayList<>();
            Matcher matcher = Pattern.compile(":([a-z_]+)").matcher(block);
            while (matcher.find()) names.add(matcher.group(1));
            try (CallableStatement call = connection.prepareCall(block)) {
                for (int times = 0; times < 2; times++) {
                    for (int at = 1; at <= names.size(); at++) {
                        String value = values.get(names.get(at - 1));
                        if (value == null) call.registerOutParameter(at, Types.VARCHAR);
                        else if (value.matches("\\d{1,12}")) call.setLong(at, Long.parseLong(value));
                        else call.setString(at, value);
                    }
                    call.execute();
                    String ended = call.getString(names.indexOf("ended") + 1);
                    String errors = call.getString(names.indexOf("errors") + 1);
                    System.out.println("ended " + ended + " errors " + (errors == null ? "" : errors));
                }
            }
        }
    }
}
