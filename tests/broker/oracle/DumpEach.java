import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** Runs kafka-dump-log on each file named on standard input and keeps what it prints as OUT/0, OUT/1, ...; deaths included. */
public class DumpEach {
    public static void main(String[] args) throws Exception {
        Path out = Path.of(args[0]);
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        BufferedReader names = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String name = names.readLine(); name != null; name = names.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            String[] flags = {"--files", name};
            try {
                scala.Console.withOut(new PrintStream(printed, true), () -> {
                    kafka.tools.DumpLogSegments.main(flags);
                    return null;
                });
            } catch (Exception death) {
                // What it printed before is what counts.
            }
            Files.write(out.resolve(String.valueOf(number++)), printed.toByteArray());
        }
    }
}
