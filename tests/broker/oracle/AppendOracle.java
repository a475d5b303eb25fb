import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.CRC32C;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.DescribeProducersResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * What a partition of Kafka answers to one batch: AppendOracle FOLDER CASES. One source for 4.1 to 4.4.
 *
 * <p>A line of CASES is {@code number|log|origin|batch}. The log is written as a follower writes it, then the batch is
 * asked for with its origin. A word is a data batch {@code e3[0-4]}, of a transaction {@code t3[0-4]} or of one of
 * version 2 {@code v3[0-4]}, an abort marker {@code m3c5} (epoch, coordinator epoch) or {@code M3c5} of version 2,
 * {@code restart}, or {@code @36}, the offset of what follows. Behind the batch may stand {@code lowest=7} or, of
 * version 2, {@code lowest=7v}, a question for a lower sequence that is still under way, and {@code ended}, a
 * transaction that ended between question and append. The answer is a line
 * {@code number|answer|base offset|producer state}.
 */
public final class AppendOracle {
    private static final long PRODUCER = 7;
    private static final Pattern BATCH = Pattern.compile("([etv])(-?\\d+)\\[(-?\\d+)-(-?\\d+)]");
    private static final Pattern MARKER = Pattern.compile("[mM](-?\\d+)c(-?\\d+)");
    private static final int CRC_POSITION = 17;
    private static final int CRC_START = 21;
    private static final int SEQUENCE_POSITION = 53;
    private static final Time TIME = Time.SYSTEM;
    private static final KafkaScheduler SCHEDULER = new KafkaScheduler(1);

    private final File folder;
    private UnifiedLog log;
    private long offset = 0;

    private AppendOracle(File folder) throws IOException {
        this.folder = folder;
        this.log = open();
    }

    public static void main(String[] args) throws IOException, InterruptedException {
        SCHEDULER.startup();
        for (String line : Files.readAllLines(Path.of(args[1]))) {
            String[] parts = line.split("\\|", -1);
            File folder = new File(args[0], parts[0] + "/t-0");
            Files.createDirectories(folder.toPath());
            System.out.println(parts[0] + "|" + new AppendOracle(folder).answer(parts[1], parts[2], parts[3]));
        }
        SCHEDULER.shutdown();
    }

    private UnifiedLog open() throws IOException {
        return UnifiedLog.create(
                folder,
                new LogConfig(new Properties()),
                0,
                0,
                SCHEDULER,
                new BrokerTopicStats(false),
                TIME,
                900_000,
                new ProducerStateManagerConfig(86_400_000, true),
                600_000,
                new LogDirFailureChannel(1),
                true,
                Optional.empty());
    }

    private String answer(String history, String origin, String question) throws IOException {
        for (String word : history.trim().split("\\s+")) {
            if (word.startsWith("@")) {
                offset = Long.parseLong(word.substring(1));
            } else if (word.equals("restart")) {
                log.close();
                log = open();
            } else if (!word.isEmpty()) {
                offset = log.appendAsFollower(records(word, offset), 0).lastOffset() + 1;
            }
        }
        String[] words = question.trim().split("\\s+");
        long end = log.logEndOffset();
        try {
            long base = append(words, AppendOrigin.valueOf(origin));
            boolean isAppended = log.logEndOffset() > end;
            return (isAppended ? "ACCEPT|" : "DUPLICATE_ACK|") + base + "|" + state();
        } catch (RuntimeException error) {
            return Errors.forException(error).name() + "|-1|" + state();
        } finally {
            log.close();
        }
    }

    private long append(String[] words, AppendOrigin origin) throws IOException {
        if (origin == AppendOrigin.REPLICATION) {
            return log.appendAsFollower(records(words[0], offset), 0).firstOffset();
        }
        Matcher batch = BATCH.matcher(words[0]);
        VerificationGuard guard = batch.matches() ? guard(words, batch) : VerificationGuard.SENTINEL;
        short version = (short) (words[0].startsWith("M") ? 2 : 1);
        return appendAsLeader(records(words[0], 0), origin, guard, version);
    }

    /** As the broker calls it; since 4.2 with the version of the transaction. */
    private long appendAsLeader(MemoryRecords records, AppendOrigin origin, VerificationGuard guard, short version) {
        Method method = Arrays.stream(UnifiedLog.class.getMethods())
                .filter(each -> each.getName().equals("appendAsLeader"))
                .max((one, other) -> Integer.compare(one.getParameterCount(), other.getParameterCount()))
                .orElseThrow();
        List<Object> given = new ArrayList<>(List.of(records, 0, origin, RequestLocal.noCaching(), guard));
        if (method.getParameterCount() > given.size()) {
            given.add(version);
        }
        try {
            return ((LogAppendInfo) method.invoke(log, given.toArray())).firstOffset();
        } catch (InvocationTargetException error) {
            throw (RuntimeException) error.getCause();
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Questions about lower sequences that are still under way, and the one about this batch. */
    private VerificationGuard guard(String[] words, Matcher batch) {
        short epoch = Short.parseShort(batch.group(2));
        boolean isVersion2 = batch.group(1).equals("v");
        for (String word : words) {
            if (word.startsWith("lowest=")) {
                int sequence = Integer.parseInt(word.substring(7).replace("v", ""));
                log.maybeStartTransactionVerification(PRODUCER, sequence, epoch, isVersion2 || word.endsWith("v"));
            }
        }
        if (batch.group(1).equals("e")) {
            return VerificationGuard.SENTINEL;
        }
        VerificationGuard guard =
                log.maybeStartTransactionVerification(
                        PRODUCER, Integer.parseInt(batch.group(3)), epoch, isVersion2);
        return words[words.length - 1].equals("ended") ? new VerificationGuard() : guard;
    }

    private static MemoryRecords records(String word, long offset) {
        Matcher marker = MARKER.matcher(word);
        if (marker.matches()) {
            return MemoryRecords.withEndTransactionMarker(
                    offset,
                    TIME.milliseconds(),
                    0,
                    PRODUCER,
                    Short.parseShort(marker.group(1)),
                    new EndTransactionMarker(ControlRecordType.ABORT, Integer.parseInt(marker.group(2))));
        }
        Matcher batch = BATCH.matcher(word);
        if (!batch.matches()) {
            throw new IllegalArgumentException(word);
        }
        int first = Integer.parseInt(batch.group(3));
        // Sequences go round: [2147483645-1] are five.
        int count = ((Integer.parseInt(batch.group(4)) - first) & Integer.MAX_VALUE) + 1;
        SimpleRecord[] records = new SimpleRecord[count];
        java.util.Arrays.setAll(records, i -> new SimpleRecord(TIME.milliseconds(), new byte[] {1}));
        MemoryRecords whole = MemoryRecords.withRecords(
                RecordBatch.CURRENT_MAGIC_VALUE,
                offset,
                Compression.NONE,
                TimestampType.CREATE_TIME,
                PRODUCER,
                Short.parseShort(batch.group(2)),
                Math.max(first, 0),
                0,
                !batch.group(1).equals("e"),
                records);
        return first < 0 ? withoutSequence(whole) : whole;
    }

    /** The batch without a sequence, as group coordinators once wrote them; no builder makes one any more. */
    private static MemoryRecords withoutSequence(MemoryRecords whole) {
        ByteBuffer bytes = whole.buffer().duplicate();
        bytes.putInt(SEQUENCE_POSITION, RecordBatch.NO_SEQUENCE);
        CRC32C crc = new CRC32C();
        crc.update(bytes.duplicate().position(CRC_START));
        bytes.putInt(CRC_POSITION, (int) crc.getValue());
        return MemoryRecords.readableRecords(bytes);
    }

    /** Epoch, last sequence, coordinator epoch and first offset of the open transaction; empty of an unknown producer. */
    private String state() {
        for (DescribeProducersResponseData.ProducerState producer : log.activeProducers()) {
            return producer.producerEpoch()
                    + " "
                    + producer.lastSequence()
                    + " "
                    + producer.coordinatorEpoch()
                    + " "
                    + producer.currentTxnStartOffset();
        }
        return "";
    }
}
