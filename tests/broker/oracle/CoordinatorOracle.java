import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.stream.Stream;
import kafka.coordinator.transaction.*;
import kafka.server.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.transaction.*;
import org.apache.kafka.server.common.*;
import org.apache.kafka.server.util.KafkaScheduler;
import scala.Function0;
import scala.Function1;
import scala.Function3;
import scala.Option;
import scala.runtime.BoxedUnit;

/**
 * What Kafka's coordinator does with a transactional id: CoordinatorOracle CASES. One source for 3.9 to 4.4: what moved
 * between packages is imported by wildcard, what changed its signature is called by reflection.
 *
 * <p>A line of CASES is {@code number|server version|state|id epoch last previous next word|asked}. The server version is
 * transaction.version; the state is {@code -} for an unknown transactional id; the word is {@code -}, {@code pending}
 * (a record is being written) or {@code failed} (an earlier fence was not written). Asked is {@code init - TIMEOUT},
 * {@code init ID EPOCH TIMEOUT}, since 4.1 also with {@code IN_TWO_PHASES KEEP_PREPARED} behind it, {@code end COMMIT|ABORT ID EPOCH VERSION}, {@code add ID EPOCH}, {@code reload}, the
 * record as another coordinator loads it, or {@code fence}, the step in memory before one is aborted. New producer ids
 * are 11.
 *
 * <p>The answer is {@code number|error|id epoch|record; record}. A record is {@code state id epoch last previous next};
 * behind one that decides a transaction stands the one that completes it.
 */
public final class CoordinatorOracle {
    private static final long NEW_ID = 11;
    private static final Map<Class<?>, Class<?>> BOXES = Map.of(
            int.class, Integer.class, long.class, Long.class, short.class, Short.class, boolean.class, Boolean.class);
    private static final TransactionConfig CONFIG = config();

    /** A coordinator's states, whose log takes every record at once and keeps it for us. */
    private static final class States extends TransactionStateManager {
        private final List<TxnTransitMetadata> records = new ArrayList<>();
        private TransactionMetadata metadata;
        private String serverVersion = "0";

        States() {
            super(0, new KafkaScheduler(1), null, null, CONFIG, Time.SYSTEM, new Metrics());
        }

        public TransactionVersion transactionVersionLevel() { // overrides it since 4.0
            return version(serverVersion);
        }

        @Override
        public void appendTransactionToLog(
                String id,
                int coordinatorEpoch,
                TxnTransitMetadata record,
                Function1<Errors, BoxedUnit> then,
                Function1<Errors, Object> retries,
                RequestLocal local) {
            records.add(record);
            if (metadata == null) { // it was unknown, and the coordinator has made it
                metadata = (TransactionMetadata)
                        get(((Option<?>) getTransactionState(id).toOption().get()).get(), "transactionMetadata");
            }
            metadata.completeTransitionTo(record);
            then.apply(Errors.NONE);
        }
    }

    private final States states = new States();
    private final TransactionCoordinator coordinator;
    private String answer;

    private CoordinatorOracle() {
        states.startup(() -> 1, false);
        call(states, "addLoadedTransactionsToCache", 0, 0, null);
        Object ids = Proxy.newProxyInstance(
                CoordinatorOracle.class.getClassLoader(),
                new Class<?>[] {ProducerIdManager.class},
                (self, method, args) -> method.getReturnType() == long.class ? NEW_ID : new scala.util.Success<>(NEW_ID));
        Function0<ProducerIdManager> manager = () -> (ProducerIdManager) ids;
        coordinator = make(TransactionCoordinator.class, CONFIG, new KafkaScheduler(1), manager, states, Time.SYSTEM);
    }

    public static void main(String[] args) throws IOException {
        CoordinatorOracle oracle = new CoordinatorOracle();
        StringBuilder said = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] parts = line.split("\\|", -1);
            said.append(parts[0]).append('|').append(oracle.asked(parts)).append('\n');
        }
        System.out.print(said);
    }

    private String asked(String[] parts) {
        String id = "id" + parts[0];
        String[] words = parts[4].split(" ");
        answer = null;
        states.records.clear();
        states.serverVersion = parts[1];
        states.metadata = parts[2].equals("-") ? null : metadata(id, parts[2], parts[3].split(" "));
        if (states.metadata != null) {
            states.putTransactionStateIfNotExists(states.metadata);
        }
        try {
            ask(id, words);
        } catch (NullPointerException error) {
            if (answer == null || !error.getMessage().contains("txnMarkerChannelManager")) {
                throw error;
            } // else it has answered, and would send markers now
        } catch (RuntimeException error) {
            answer = Errors.forException(error).name() + "|";
        }
        StringBuilder records = new StringBuilder();
        for (TxnTransitMetadata record : states.records) {
            records.append(records.length() == 0 ? "" : "; ").append(text(record));
            if (List.of("init", "end").contains(words[0]) && text(record).startsWith("Prepare")) {
                pending(states.metadata, null);
                records.append("; ").append(text((TxnTransitMetadata) call(states.metadata, "prepareComplete", 2L)));
            }
        }
        return answer + "|" + records;
    }

    private void ask(String id, String[] words) {
        Function1<InitProducerIdResult, BoxedUnit> initialised = result -> {
            boolean failed = result.error() != Errors.NONE;
            answer = result.error().name() + "|" + (failed ? "" : result.producerId() + " " + result.producerEpoch());
            return BoxedUnit.UNIT;
        };
        Function1<Errors, BoxedUnit> only = error -> {
            answer = error.name() + "|";
            return BoxedUnit.UNIT;
        };
        Function3<Errors, Object, Object, BoxedUnit> ended = (error, producer, epoch) -> {
            answer = error.name() + "|" + (error == Errors.NONE ? producer + " " + epoch : "");
            return BoxedUnit.UNIT;
        };
        switch (words[0]) {
            case "init" -> {
                int at = words[1].equals("-") ? 2 : 3;
                List<Object> given = new ArrayList<>(List.of(id, Integer.parseInt(words[at]), initialised));
                given.add(at == 2 ? Option.empty() : Option.apply(identity(words[1], words[2])));
                Arrays.stream(words).skip(at + 1).map(Boolean::valueOf).forEach(given::add);
                call(coordinator, "handleInitProducerId", given.toArray());
            }
            case "end" -> call(
                    coordinator,
                    "handleEndTransaction",
                    id,
                    Long.parseLong(words[2]),
                    Short.parseShort(words[3]),
                    TransactionResult.valueOf(words[1]),
                    version(words[4]),
                    only,
                    ended);
            case "add" -> call(
                    coordinator,
                    "handleAddPartitionsToTransaction",
                    id,
                    Long.parseLong(words[1]),
                    Short.parseShort(words[2]),
                    new HashSet<>(List.of(new TopicPartition("t", 0))),
                    only,
                    version("0"));
            case "fence" -> {
                states.records.add(states.metadata.prepareFenceProducerEpoch());
                answer = "NONE|";
            }
            default -> reload(id);
        }
    }

    private void reload(String id) {
        Object log;
        try {
            log = Class.forName("kafka.coordinator.transaction.TransactionLog$").getField("MODULE$").get(null);
        } catch (ReflectiveOperationException error) {
            log = make(TransactionLog.class);
        }
        Object record = call(states.metadata, "prepareNoTransit");
        ByteBuffer value = ByteBuffer.wrap((byte[]) call(log, "valueToBytes", record, version(states.serverVersion)));
        ByteBuffer key = ByteBuffer.wrap((byte[]) call(log, "keyToBytes", id));
        Object loaded = has(log.getClass(), "read")
                ? get(call(log, "read", key, value), "metadata")
                : ((Option<?>) call(log, "readTxnRecordValue", id, value)).get();
        states.records.add((TxnTransitMetadata) call(loaded, "prepareNoTransit"));
        answer = "NONE|";
    }

    private static TransactionMetadata metadata(String id, String state, String[] words) {
        TransactionState at = null;
        for (byte code = 0; code < 8; code++) {
            TransactionState each = TransactionState.fromId(code);
            at = name(each).equals(state) ? each : at;
        }
        long previous = Long.parseLong(words[3]);
        List<Object> given = new ArrayList<>(List.of(id, Long.parseLong(words[0]), previous));
        if (has(TxnTransitMetadata.class, "nextProducerId")) {
            given.add(Long.parseLong(words[4]));
        }
        given.addAll(List.of(Short.parseShort(words[1]), Short.parseShort(words[2]), 60_000, at, 0L, 0L));
        given.add(version("0"));
        TransactionMetadata metadata = make(TransactionMetadata.class, given.toArray());
        if (words[5].equals("pending")) {
            pending(metadata, TransactionState.fromId((byte) 0));
        } else if (words[5].equals("failed")) {
            boolean isScala = has(metadata.getClass(), "hasFailedEpochFence_$eq");
            call(metadata, isScala ? "hasFailedEpochFence_$eq" : "hasFailedEpochFence", true);
        }
        return metadata;
    }

    private static void pending(TransactionMetadata metadata, TransactionState state) {
        if (has(metadata.getClass(), "pendingState_$eq")) {
            call(metadata, "pendingState_$eq", Option.apply(state));
        } else {
            call(metadata, "pendingState", Optional.ofNullable(state));
        }
    }

    private static String text(TxnTransitMetadata record) {
        boolean isOld = !has(TxnTransitMetadata.class, "nextProducerId");
        return name(record.txnState())
                + " "
                + record.producerId()
                + " "
                + record.producerEpoch()
                + " "
                + record.lastProducerEpoch()
                + " "
                + get(record, isOld ? "lastProducerId" : "prevProducerId")
                + " "
                + (isOld ? -1 : get(record, "nextProducerId"));
    }

    private static String name(TransactionState state) {
        return (String) get(state, has(TransactionState.class, "stateName") ? "stateName" : "name");
    }

    private static TransactionConfig config() {
        return make(
                TransactionConfig.class,
                604_800_000, 900_000, 50, (short) 3, 104_857_600, 5_242_880, 2, 10_000, 3_600_000, false, 30_000);
    }

    private static Object identity(String id, String epoch) {
        String utils = "org.apache.kafka.common.utils.";
        for (String name : List.of(utils + "internals.ProducerIdAndEpoch", utils + "ProducerIdAndEpoch")) {
            try {
                return make(Class.forName(name), Long.parseLong(id), Short.parseShort(epoch));
            } catch (ClassNotFoundException error) {
                continue;
            }
        }
        throw new IllegalStateException("no ProducerIdAndEpoch");
    }

    private static TransactionVersion version(String level) {
        for (TransactionVersion each : TransactionVersion.values()) {
            if (each.featureLevel() == Short.parseShort(level)) {
                return each;
            }
        }
        throw new IllegalArgumentException(level);
    }

    private static boolean has(Class<?> type, String method) {
        return Arrays.stream(type.getMethods()).anyMatch(each -> each.getName().equals(method));
    }

    private static Object get(Object of, String name) {
        return call(of, name);
    }

    /** Calls the method of this name, with those of the values that its parameters take, in their order. */
    private static Object call(Object of, String name, Object... values) {
        Method method = Stream.of(of.getClass().getMethods(), of.getClass().getDeclaredMethods())
                .flatMap(Arrays::stream)
                .filter(each -> each.getName().equals(name))
                .filter(each -> (each.getParameterCount() == 0) == (values.length == 0))
                .findFirst()
                .orElseThrow(() -> new IllegalStateException(of.getClass() + " has no " + name));
        try {
            method.setAccessible(true);
            return method.invoke(of, arguments(method.getParameterTypes(), values));
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            throw new IllegalStateException(error.getCause());
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    private static <T> T make(Class<T> type, Object... values) {
        Constructor<?> longest = Arrays.stream(type.getDeclaredConstructors())
                .max((one, other) -> Integer.compare(one.getParameterCount(), other.getParameterCount()))
                .orElseThrow();
        try {
            longest.setAccessible(true);
            return type.cast(longest.newInstance(arguments(longest.getParameterTypes(), values)));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static Object[] arguments(Class<?>[] types, Object[] values) {
        List<Object> left = new ArrayList<>(Arrays.asList(values));
        return Arrays.stream(types).map(type -> argument(type, left)).toArray();
    }

    /** The first value that is left and fits; otherwise what is empty. */
    private static Object argument(Class<?> type, List<Object> left) {
        Class<?> boxed = BOXES.getOrDefault(type, type);
        for (Object value : left) {
            if (boxed.isInstance(value)) {
                left.remove(value);
                return value;
            }
        }
        if (type == scala.collection.Set.class) {
            return scala.jdk.javaapi.CollectionConverters.asScala(new HashSet<>(List.of(new TopicPartition("t", 0))));
        }
        if (type == scala.collection.mutable.Set.class) {
            return new scala.collection.mutable.HashSet<TopicPartition>();
        }
        if (type == java.util.Set.class) {
            return new HashSet<TopicPartition>();
        }
        if (type == ConcurrentMap.class) {
            return new ConcurrentHashMap<String, Object>();
        }
        if (type.getSimpleName().equals("Pool")) {
            return make(type, Option.empty());
        }
        if (type.getSimpleName().equals("LogContext")) {
            return make(type, "");
        }
        return type == boolean.class ? false : null;
    }
}
