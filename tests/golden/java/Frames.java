import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.TopicFilterType;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/**
 * Requests as Apache RocketMQ itself encodes them, from fixed values: "name TAB hex", one a line.
 *
 * Headers and bodies are found by name, because 4.9 and 5.x keep them in different packages; a class or a field that
 * this version does not have yet is left out. The one argument is the version number to send.
 */
public class Frames {
    static final String[] PACKAGES = {
        "org.apache.rocketmq.remoting.protocol.header.namesrv.", "org.apache.rocketmq.remoting.protocol.header.",
        "org.apache.rocketmq.remoting.protocol.body.", "org.apache.rocketmq.remoting.protocol.route.",
        "org.apache.rocketmq.remoting.protocol.statictopic.", "org.apache.rocketmq.remoting.protocol.",
        "org.apache.rocketmq.common.protocol.header.namesrv.", "org.apache.rocketmq.common.protocol.header.",
        "org.apache.rocketmq.common.protocol.body.", "org.apache.rocketmq.common.protocol.route.",
        "org.apache.rocketmq.common.",
    };
    static final String ODD = "gr\u00fcn/<b>\"q\" \u2028\u0001 \u65e5\u672c \ud83d\ude80";
    static int version;
    static int opaque = 100;

    /** An instance of the class with that simple name and those fields, or null where it does not exist. */
    static <T> T make(String name, Object... fields) throws Exception {
        for (String prefix : PACKAGES) {
            try {
                @SuppressWarnings("unchecked")
                T made = (T) Class.forName(prefix + name).getConstructor().newInstance();
                for (int i = 0; i < fields.length; i += 2) {
                    set(made, (String) fields[i], fields[i + 1]);
                }
                return made;
            } catch (ClassNotFoundException e) {
                // in another package, or in another version
            }
        }
        return null;
    }

    static void set(Object object, String name, Object value) throws Exception {
        for (Class<?> type = object.getClass(); type != null; type = type.getSuperclass()) {
            try {
                Field field = type.getDeclaredField(name);
                field.setAccessible(true);
                field.set(object, value);
                return;
            } catch (NoSuchFieldException e) {
                // in a superclass, or in another version
            }
        }
    }

    static void emit(String name, int code, CommandCustomHeader header, byte[] body) {
        emit(name, code, header, body, Map.of());
    }

    static void emit(String name, int code, CommandCustomHeader header, byte[] body, Map<String, String> more) {
        for (SerializeType type : SerializeType.values()) {
            RemotingCommand command = RemotingCommand.createRequestCommand(code, header);
            more.forEach(command::addExtField);
            write(name, command, type, body);
        }
    }

    static void write(String name, RemotingCommand command, SerializeType type, byte[] body) {
        command.setVersion(version);
        command.setOpaque(opaque++);
        command.setBody(body);
        command.setSerializeTypeCurrentRPC(type);
        ByteBuffer frame = command.encode();
        StringBuilder line = new StringBuilder(name + (type == SerializeType.JSON ? ", JSON" : ", binary") + "\t");
        while (frame.hasRemaining()) {
            line.append(String.format("%02x", frame.get()));
        }
        System.out.println(line);
    }

    static Object dataVersion(long counter, long state) throws Exception {
        return make("DataVersion", "counter", new AtomicLong(counter), "timestamp", 1700000000000L,
            "stateVersion", state);
    }

    static ConcurrentHashMap<String, TopicConfig> topics() throws Exception {
        TopicConfig second = new TopicConfig("T2", 8, 2, 7);
        second.setTopicSysFlag(3);
        second.setTopicFilterType(TopicFilterType.MULTI_TAG);
        second.setOrder(true);
        set(second, "attributes", new TreeMap<>(Map.of("message.type", "FIFO")));
        ConcurrentHashMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        for (TopicConfig topic : List.of(new TopicConfig("T1", 4, 4, 6), second,
            new TopicConfig("th\u00e8me/\u65e5\u672c", 1, 1, 6))) {
            topics.put(topic.getTopicName(), topic);
        }
        return topics;
    }

    static byte[] registration(boolean mapped, boolean compressed) throws Exception {
        Object wrapper = make("TopicConfigAndMappingSerializeWrapper", "mappingDataVersion", dataVersion(1, 0));
        if (wrapper == null) {
            wrapper = make("TopicConfigSerializeWrapper");
        }
        set(wrapper, "dataVersion", dataVersion(5, 2));
        set(wrapper, "topicConfigTable", topics());
        if (mapped) {
            ConcurrentHashMap<Integer, Integer> ids = new ConcurrentHashMap<>(Map.of(0, 0, 5, 1));
            Object info = make("TopicQueueMappingInfo", "topic", "T1", "totalQueues", 8, "bname", "broker-a",
                "epoch", 7L, "currIdMap", ids);
            if (info != null) {
                set(wrapper, "topicQueueMappingInfoMap", new ConcurrentHashMap<>(Map.of("T1", info)));
            }
        }
        List<String> servers = mapped ? new ArrayList<>(List.of("127.0.0.1:30001")) : new ArrayList<>();
        Object body = make("RegisterBrokerBody", "topicConfigSerializeWrapper", wrapper, "filterServerList", servers);
        return (byte[]) body.getClass().getMethod("encode", boolean.class).invoke(body, compressed);
    }

    static void register(String name, byte[] body, Map<String, String> more, Object... fields) throws Exception {
        CommandCustomHeader header = make("RegisterBrokerRequestHeader", "brokerAddr", "127.0.0.1:10911",
            "brokerId", 0L, "brokerName", "broker-a", "clusterName", "DefaultCluster",
            "haServerAddr", "127.0.0.1:10912", "bodyCrc32", UtilAll.crc32(body), "enableActingMaster", false);
        for (int i = 0; i < fields.length; i += 2) {
            set(header, (String) fields[i], fields[i + 1]);
        }
        emit("register, " + name, 103, header, body, more);
    }

    static void registrations() throws Exception {
        register("plain", registration(false, false), Map.of());
        register("with mappings and filter servers", registration(true, false), Map.of());
        register("compressed", registration(true, true), Map.of(), "compressed", true);
        register("slave in a zone that may act as master", registration(false, false), Map.of("__ZONE_NAME", "zone-1"),
            "brokerId", 1L, "enableActingMaster", true, "heartbeatTimeoutMillis", 10000L);
        RemotingSerializable old = make("TopicConfigSerializeWrapper", "dataVersion", dataVersion(5, 0),
            "topicConfigTable", topics());
        register("topic table alone", old.encode(), Map.of(), "enableActingMaster", null);
    }

    static void brokers() throws Exception {
        Object[] identity = {"brokerAddr", "127.0.0.1:10911", "brokerId", 0L, "brokerName", "broker-a",
            "clusterName", "DefaultCluster"};
        emit("unregister", 104, make("UnRegisterBrokerRequestHeader", identity), null);
        byte[] known = ((RemotingSerializable) dataVersion(5, 2)).encode();
        emit("data version", 322, make("QueryDataVersionRequestHeader", identity), known);
        CommandCustomHeader beat = make("BrokerHeartbeatRequestHeader", identity);
        if (beat != null) {
            emit("heartbeat", 904, beat, null);
            RemotingCommand oneWay = RemotingCommand.createRequestCommand(904, beat);
            oneWay.markOnewayRPC();
            write("heartbeat, one-way", oneWay, SerializeType.JSON, null);
            emit("member group", 901, make("GetBrokerMemberGroupRequestHeader", identity), null);
            emit("lowest id changed", 905, make("NotifyMinBrokerIdChangeRequestHeader", "minBrokerId", 1L,
                "minBrokerAddr", "127.0.0.1:10921", "offlineBrokerAddr", "127.0.0.1:10911",
                "haBrokerAddr", "127.0.0.1:10922"), null);
        }
        emit("wipe write permission", 205, make("WipeWritePermOfBrokerRequestHeader", "brokerName", "broker-a"), null);
        emit("add write permission", 327, make("AddWritePermOfBrokerRequestHeader", "brokerName", "broker-a"), null);
    }

    static void topicRequests() throws Exception {
        emit("route", 105, make("GetRouteInfoRequestHeader", "topic", "T1"), null);
        Object[] standard = {"topic", ODD, "acceptStandardJsonOnly", true};
        emit("route, standard JSON only, odd text", 105, make("GetRouteInfoRequestHeader", standard), null);
        CommandCustomHeader one = make("RegisterTopicRequestHeader", "topic", "T1");
        if (one != null) {
            Object queues = make("QueueData", "brokerName", "broker-a", "perm", 6, "readQueueNums", 8,
                "writeQueueNums", 4);
            RemotingSerializable route = make("TopicRouteData", "queueDatas", new ArrayList<>(List.of(queues)));
            emit("register one topic", 217, one, route.encode());
        }
        Object[] topic = {"topic", "T1", "clusterName", "DefaultCluster"};
        emit("delete a topic", 216, make("DeleteTopicFromNamesrvRequestHeader", topic), null);
        emit("topics by cluster", 224, make("GetTopicsByClusterRequestHeader", "cluster", "DefaultCluster"), null);
        for (int code : new int[] {106, 206, 304, 311, 312, 313, 319}) {
            emit("code " + code, code, null, null);
        }
        emit("update config", 318, null, "orderMessageEnable=true\n".getBytes(StandardCharsets.UTF_8));
    }

    static void keyValues() throws Exception {
        Object[] key = {"namespace", "ns", "key", "k", "value", ODD};
        emit("put kv", 100, make("PutKVConfigRequestHeader", key), null);
        emit("get kv", 101, make("GetKVConfigRequestHeader", key), null);
        emit("delete kv", 102, make("DeleteKVConfigRequestHeader", key), null);
        emit("list kv", 219, make("GetKVListByNamespaceRequestHeader", key), null);
        for (SerializeType type : SerializeType.values()) {
            RemotingCommand answer = RemotingCommand.createResponseCommand(0, ODD);
            answer.addExtField("value", ODD);
            write("answer with remark and field", answer, type, null);
        }
    }

    static void messages() throws Exception {
        emit("send", 310, make("SendMessageRequestHeaderV2", "a", "group", "b", "T1", "c", "TBW102", "d", 4, "e", 2,
            "f", 0, "g", 1700000000000L, "h", 0, "i", "KEYS\u0001k\u0002WAIT\u0001true\u0002", "j", 0, "k", false,
            "m", false), "hello".getBytes(StandardCharsets.UTF_8));
        emit("pull", 11, make("PullMessageRequestHeader", "consumerGroup", "group", "topic", "T1", "queueId", 2,
            "queueOffset", 1L << 40, "maxMsgNums", 32, "sysFlag", 6, "commitOffset", 0L,
            "suspendTimeoutMillis", 15000L, "subscription", "*", "subVersion", 1700000000000L,
            "expressionType", "TAG"), null);
    }

    public static void main(String[] args) throws Exception {
        version = Integer.parseInt(args[0]);
        registrations();
        brokers();
        topicRequests();
        keyValues();
        messages();
        System.exit(0);
    }
}
